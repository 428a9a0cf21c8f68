"""Checks an International Bank Account Number by its digits, and keeps it as a token.

The token lies where those of bank accounts do, in `/bank/high/`: the reactor's application, or the caller if it has none,
needs a rule that lets it create tokens there.

`tokamak formula test` builds the component by componentize-py and runs `cases/`.
"""

import json
import re

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.reactor import Request, Response
from wit_world.imports.types import Error_BadRequest, Fault


def refused(message: str) -> Err:
    return Err(Error_BadRequest(Fault("The account is refused.", [("args.iban", [message])])))


def is_valid(iban: str) -> bool:
    # ISO 13616: the first four characters go last, letters count from 10, and the rest of a division by 97 is 1.
    if re.fullmatch(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", iban) is None:
        return False
    digits = "".join(str(int(character, 36)) for character in iban[4:] + iban[:4])
    return int(digits) % 97 == 1


class Reactor(exports.Reactor):
    def react(self, request: Request) -> Response:
        iban = re.sub(r"\s", "", json.loads(request.args)["iban"]).upper()
        countries = json.loads(request.configuration).get("countries")
        if not is_valid(iban):
            raise refused("is no IBAN")
        if countries and iban[:2] not in re.findall(r"\w+", countries.upper()):
            raise refused("is of a country that is not taken")
        kept = {"type": "token", "data": iban, "mask": "{{ data | reveal_last: 4 }}", "containers": ["/bank/high/"]}
        raw = {"country": iban[:2], "last_four": iban[-4:]}
        return Response(raw=json.dumps(raw), tokenize=json.dumps({"account": kept}))
