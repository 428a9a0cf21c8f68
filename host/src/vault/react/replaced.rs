//! Formulas that are replaced while runs of them begin: a run takes what it is about to run as it is by then, if that takes
//! the same.

use super::{Ready, Run};
use crate::model::formula::Formula;
use crate::model::id::TenantId;
use crate::runtime::Program;
use crate::vault::retry::TRIES;
use crate::vault::{Error, Vault};

impl Vault {
    /// The program of a run's formula. When its component or script was just replaced by another one that takes the same,
    /// that is run.
    pub(super) async fn program_to_run(&self, run: &mut Run<'_>) -> Result<Program, Error> {
        let (tenant, id) = (run.permit.tenant(), run.formula.id);
        let mut lost = 0;
        loop {
            match self.program_of(tenant, &run.formula).await {
                Err(Error::Replaced) if lost + 1 < TRIES => lost += 1,
                program => return program,
            }
            let formula = self.formula(tenant, id).await?;
            if !take_the_same(&formula, &run.formula) {
                return Err(Error::Replaced);
            }
            run.formula = formula;
        }
    }

    /// Takes a formula as it is by now, if it was replaced by one that takes the same since it was got ready.
    pub(in crate::vault) async fn read_again(&self, tenant: TenantId, ready: &mut Ready) {
        // Whatever else became of it, what has begun is run as it was got ready.
        if let Ok(formula) = self.formula(tenant, ready.formula.id).await
            && take_the_same(&formula, &ready.formula)
        {
            ready.formula = formula;
        }
    }
}

/// Whether arguments and configurations of the one are those of the other.
fn take_the_same(one: &Formula, other: &Formula) -> bool {
    one.request_parameters == other.request_parameters
        && one.undeclared_arguments == other.undeclared_arguments
        && one.configuration == other.configuration
}
