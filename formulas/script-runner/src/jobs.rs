//! The queue of what promises have to do.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use boa_engine::job::{Job, JobExecutor, PromiseJob};
use boa_engine::{Context, JsResult};

/// Jobs in the order in which they came. Timers are the prelude's own; nothing makes jobs of other kinds but registries
/// of finalisers, and an instance ends before anything is finalised.
#[derive(Default)]
pub struct Jobs(RefCell<VecDeque<PromiseJob>>);

impl JobExecutor for Jobs {
    fn enqueue_job(self: Rc<Self>, job: Job, _: &mut Context) {
        if let Job::PromiseJob(job) = job {
            self.0.borrow_mut().push_back(job);
        }
    }

    fn run_jobs(self: Rc<Self>, context: &mut Context) -> JsResult<()> {
        loop {
            let Some(job) = self.0.borrow_mut().pop_front() else { break };
            job.call(context)?;
        }
        context.clear_kept_objects();
        Ok(())
    }
}
