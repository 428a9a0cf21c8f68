/* Included before every file of the engine.
 *
 * Under __wasi__ the engine does not look at how much of its stack is left, and a script that calls itself for ever, or
 * whose parts are nested for ever, would end the component instead of getting its RangeError. What it needs of the C
 * library wants the name, so that comes first.
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fenv.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#undef __wasi__

/* Before it compares its stack's pointer, the engine takes from it what it is about to put there, such as the arguments of a
 * call. The stack lies at the lowest addresses, where that would pass zero and look like much room. */
#define __builtin_frame_address(level) ((void *)((uintptr_t)__builtin_frame_address(level) + ((uintptr_t)1 << 30)))
