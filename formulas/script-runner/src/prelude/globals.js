// How the other files put names into the global object: as the language's own are, so that a script may declare them anew.
(function (host, shared) {
  'use strict';
  shared.globals = (named) => {
    for (const name of Object.keys(named)) {
      Object.defineProperty(globalThis, name, { value: named[name], writable: true, configurable: true, enumerable: false });
    }
  };
})
