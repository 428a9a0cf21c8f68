//! The limits of the product, in one table: what users meet, and what modules share. How one works inside is bounded there.
//!
//! To add a limit: a constant here, with its unit last in the name and its section of the specification,
//! and a test that goes one past it.

/// Largest JSON body of a request, in bytes (decisions §1).
pub const REQUEST_BODY_BYTES_MAX: usize = 4 << 20;
/// Largest upload of a component, in bytes (decisions §1).
pub const COMPONENT_BYTES_MAX: usize = 32 << 20;
/// Largest body of a request that carries a component in base64, in bytes.
pub const FORMULA_BODY_BYTES_MAX: usize = COMPONENT_BYTES_MAX / 3 * 4 + REQUEST_BODY_BYTES_MAX;
/// Bytes of requests' bodies that are in memory at the same time, all together; of one tenant's at most half.
pub const BODIES_BYTES_MAX: usize = 512 << 20;
/// Bytes of each body that do not count among those.
pub const BODY_BYTES_FREE: usize = 16 << 10;
/// Bytes of a refused body that are read and thrown away, so that the client sees why it was refused.
pub const LINGER_BYTES_MAX: usize = 2 * FORMULA_BODY_BYTES_MAX;
/// How long such reading may take, in milliseconds.
pub const LINGER_MS_MAX: u64 = 10_000;
/// Longest chain of nested arrays and objects in any JSON taken from outside.
pub const JSON_DEPTH_MAX: usize = 64;
/// Characters of a member's path in an answer; longer ones are cut short.
pub const PATH_CHARS_MAX: usize = 256;
/// Faults that an answer names; there may be more.
pub const FAULTS_MAX: usize = 100;

/// Entries on a page when the caller names no size (decisions §1).
pub const PAGE_SIZE_DEFAULT: usize = 20;
/// Most entries on a page (decisions §1).
pub const PAGE_SIZE_MAX: usize = 100;

/// Characters of an application's, reactor's or formula's name (interface §8).
pub const NAME_CHARS_MAX: usize = 200;
/// Characters of a description.
pub const DESCRIPTION_CHARS_MAX: usize = 4_000;
/// Rules of one application.
pub const RULES_MAX: usize = 100;
/// Characters of a trace id taken from a request.
pub const TRACE_ID_CHARS_MAX: usize = 128;

/// Characters of a token id, fewest (decisions §3).
pub const TOKEN_ID_CHARS_MIN: usize = 3;
/// Characters of a token id, most (decisions §3).
pub const TOKEN_ID_CHARS_MAX: usize = 400;
/// Bytes of a token's `data` as JSON (decisions §3).
pub const TOKEN_DATA_BYTES_MAX: usize = 1 << 20;
/// Bytes of a token's `mask` as JSON.
pub const TOKEN_MASK_BYTES_MAX: usize = 64 << 10;
/// Containers of one token (decisions §3).
pub const CONTAINERS_MAX: usize = 20;
/// Characters of one container.
pub const CONTAINER_CHARS_MAX: usize = 400;
/// Segments of one container of a token: whatever is above it is kept with the token too.
pub const CONTAINER_SEGMENTS_MAX: usize = 16;
/// Segments of all containers of one token together.
pub const CONTAINERS_SEGMENTS_MAX: usize = 10 * CONTAINER_SEGMENTS_MAX;
/// Search index expressions of one token (decisions §3).
pub const SEARCH_INDEXES_MAX: usize = 20;
/// Values of one filter of a list that a formula asks for. An address, where others have theirs, is bounded by its length.
pub const FILTER_VALUES_MAX: usize = 1_000;
/// Metadata entries of one token (decisions §3).
pub const METADATA_KEYS_MAX: usize = 50;
/// Characters of a metadata key (decisions §3).
pub const METADATA_KEY_CHARS_MAX: usize = 64;
/// Characters of a metadata value (decisions §3).
pub const METADATA_VALUE_CHARS_MAX: usize = 1_000;
/// Terms that a token is found by: its containers and all above them with the root, its metadata, its search indexes, and
/// one each for its type, its fingerprint, who made it and who changed it.
pub const TOKEN_TERMS_MAX: usize =
    CONTAINERS_MAX + CONTAINERS_SEGMENTS_MAX + 1 + METADATA_KEYS_MAX + SEARCH_INDEXES_MAX + 4;
/// How long a card's `cvc` stays when the tenant sets nothing, in minutes (decisions §3).
pub const CVC_RETENTION_MINUTES_DEFAULT: u32 = 60;
/// How long a card's `cvc` may stay at most, in minutes.
pub const CVC_RETENTION_MINUTES_MAX: u32 = 24 * 60;
/// Tries to find a free alias before an id of our own is taken (decisions §3).
pub const ALIAS_TRIES_MAX: usize = 10;

/// Bytes of an expression's source (decisions §4).
pub const EXPRESSION_BYTES_MAX: usize = 4 << 10;
/// Bytes an expression may evaluate to (decisions §4).
pub const EXPRESSION_OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Bytes that evaluating one expression or mask may hand from filter to filter (decisions §4).
pub const EXPRESSION_WORK_BYTES_MAX: usize = 16 << 20;

/// Bytes that filling arguments may hand from filter to filter: more than one expression, since there may be many
/// references.
pub const ARGUMENTS_WORK_BYTES_MAX: usize = 4 * EXPRESSION_WORK_BYTES_MAX;

/// How long a session lives that nobody gave a longer life, in milliseconds (decisions §2).
pub const SESSION_MS: u64 = 3 * 60 * 1000;
/// How long a session lives at most, in milliseconds (decisions §2).
pub const SESSION_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Conditions of one rule of a session.
pub const CONDITIONS_MAX: usize = 20;
/// Characters of an idempotency key.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;
/// How long the answer to an idempotency key is kept, in milliseconds (decisions §1).
pub const IDEMPOTENT_ANSWER_MS: u64 = 24 * 60 * 60 * 1000;

/// Bytes of a search query: it may ask for any value that an index has, whatever of it is escaped.
pub const QUERY_BYTES_MAX: usize = 192 << 10;
/// Terms of a search query (decisions §5).
pub const QUERY_TERMS_MAX: usize = 64;
/// Parentheses in parentheses of a search query (decisions §5).
pub const QUERY_LEVELS_MAX: usize = 16;

/// Bytes, as text, that come in the place of references, all those of one `react` or `detokenize` together.
pub const FILLED_BYTES_MAX: usize = 16 << 20;
/// Bytes of memory that tokens which requests have read take at the same time, with the answers that are not sent yet, all
/// together; of one tenant's at most half.
pub const OPENED_BYTES_MAX: usize = 1 << 30;
/// Bytes of what one request has read that do not count among those, and of an answer that does not.
pub const OPENED_BYTES_FREE: usize = 256 << 10;
/// Tokens read or made by one `react`, `tokenize` or `detokenize` (interface §8).
pub const TOKENS_PER_CALL_MAX: usize = 100;

/// Configuration entries or request parameters of a formula.
pub const FORMULA_PARAMETERS_MAX: usize = 200;
/// Memory of one invocation when the formula names none, in MiB (decisions §6).
pub const FORMULA_MEMORY_MB_DEFAULT: u32 = 64;
/// Memory of one invocation, most, in MiB (decisions §6).
pub const FORMULA_MEMORY_MB_MAX: u32 = 512;
/// Bytes of a script.
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;
/// Time to parse a script when it arrives, in milliseconds.
pub const SCRIPT_CHECK_MS: u64 = 10_000;
/// Characters of what is wrong with a script.
pub const SCRIPT_DETAIL_CHARS_MAX: usize = 400;
/// Time that a script's top level may compute so that it is evaluated once and not in every run, in milliseconds.
pub const SCRIPT_PREPARE_MS: u64 = 200;
/// Bytes of memory that a script's top level may leave for that.
pub const SCRIPT_IMAGE_BYTES_MAX: usize = 4 << 20;
/// Scripts kept in memory, about, and bytes of them all.
pub const SCRIPTS_KEPT: usize = 1_024;
/// See [`SCRIPTS_KEPT`].
pub const SCRIPTS_KEPT_BYTES: u64 = 64 << 20;
/// Hosts in a formula's `allowed_hosts`.
pub const ALLOWED_HOSTS_MAX: usize = 100;
/// Bytes of an `icon`.
pub const ICON_BYTES_MAX: usize = 64 << 10;
/// Time of a synchronous invocation, in milliseconds (decisions §7).
pub const REACT_TIMEOUT_MS: u64 = 10_000;
/// Time of an asynchronous invocation, most, in milliseconds (interface §8).
pub const ASYNCHRONOUS_TIMEOUT_MS_MAX: u64 = 210_000;
/// Characters of a `callback_url`.
pub const CALLBACK_URL_CHARS_MAX: usize = 2_048;
/// Asynchronous runs of one tenant that wait, unless the operator says otherwise.
pub const JOBS_WAITING_DEFAULT: u64 = 100_000;
/// Asynchronous runs that go on at the same time, unless the operator says otherwise.
pub const JOBS_RUNNING_DEFAULT: u32 = 64;
/// Asynchronous runs that wait for the compiler beside those that go on: each may have its component in memory meanwhile.
pub const JOBS_APART_MAX: usize = 64;
/// Tries to begin an asynchronous run, before it ends as failed.
pub const JOB_TRIES_MAX: u32 = 5;
/// The same where its tenant's requests hold the memory that it needs: ten minutes.
pub const JOB_TRIES_WITHOUT_MEMORY_MAX: u32 = 16;
/// After how many seconds a run is tried again for which there was no room: longer than most runs that hold memory.
pub const RUN_WAIT_SECONDS: u64 = 5;
/// How long an asynchronous run waits for a slot before another one of its tenant has its turn, in milliseconds.
pub const JOB_SLOT_WAIT_MS_MAX: u64 = 30_000;
/// Records that a worker takes from the store at a time.
pub const HANDED_OUT_MAX: usize = 32;
/// How often the workers look for what has become due, in milliseconds.
pub const WORKERS_TICK_MS: u64 = 500;
/// Tenants that the workers look at anew at each such time.
pub const TENANTS_LOOKED_AT: usize = 256;
/// How long a try takes, answered or not, until its receiver is taken for slow, in milliseconds.
pub const DELIVERY_SLOW_MS: u64 = 5_000;
/// Webhooks that are being told at the same time to receivers that were prompt the last time.
pub const DELIVERIES_PROMPT_MAX: usize = 160;
/// The same, of one tenant.
pub const DELIVERIES_PROMPT_PER_TENANT_MAX: usize = 64;
/// The same, of one tenant to one receiver.
pub const DELIVERIES_PER_RECEIVER_MAX: usize = 8;
/// Webhooks that are being told at the same time, beside those, to receivers that were told nothing before.
pub const DELIVERIES_UNKNOWN_MAX: usize = 160;
/// The same, of one tenant to receivers that were told nothing before, one for each.
pub const DELIVERIES_UNKNOWN_PER_TENANT_MAX: usize = 64;
/// The same, beside all these, to receivers that took long the last time.
pub const DELIVERIES_SLOW_MAX: usize = 64;
/// The same, of one tenant.
pub const DELIVERIES_SLOW_PER_TENANT_MAX: usize = 16;
/// The same, of one tenant to one receiver, while there are many.
pub const DELIVERIES_PER_SLOW_RECEIVER_MAX: usize = 4;
/// How long a receiver may take to answer, in milliseconds (decisions §8).
pub const DELIVERY_TIMEOUT_MS: u64 = 15_000;
/// The wait before the second try of a delivery, in milliseconds (decisions §8).
pub const DELIVERY_INTERVAL_MS_MIN: u64 = 5_000;
/// The longest wait between two tries, in milliseconds (decisions §8).
pub const DELIVERY_INTERVAL_MS_MAX: u64 = 6 * 60 * 60 * 1000;
/// How long a delivery waits for which there is no memory, or no place to look its receiver's name up, in milliseconds.
pub const DELIVERY_PUT_OFF_MS: u64 = 30_000;
/// How long a delivery is tried, in milliseconds (decisions §8).
pub const DELIVERY_WINDOW_MS: u64 = 24 * 60 * 60 * 1000;
/// How long a rotated secret still signs, in milliseconds (decisions §8).
pub const OLD_SECRET_SIGNS_MS: u64 = 24 * 60 * 60 * 1000;
/// Signing secrets of a tenant that sign at the same time.
pub const SIGNING_SECRETS_MAX: usize = 10;
/// Bytes of log lines and standard output kept with an invocation (decisions §7).
pub const INVOCATION_LOG_BYTES_MAX: usize = 64 << 10;
/// Bytes a formula may answer with: `raw` and `tokenize` together.
pub const RESPONSE_BYTES_MAX: usize = 4 << 20;
/// Longest chain of nested arrays and objects in what a formula answers. A result is kept and told within objects of ours,
/// and whoever reads those has a parser of 128 levels.
pub const RESPONSE_DEPTH_MAX: usize = 120;
/// Bytes of the tokens that are shown in the result of an asynchronous run, or in an answer that is repeated. The others are
/// shown in outline.
pub const SHOWN_BYTES_MAX: usize = 4 * RESPONSE_BYTES_MAX;
/// Bytes of a webhook's body: what a formula may answer, with the tokens made of it in full and all that is written
/// longer than it was read.
pub const WEBHOOK_BODY_BYTES_MAX: usize = 8 * RESPONSE_BYTES_MAX;
/// Headers of a formula's own response.
pub const CUSTOM_HEADERS_MAX: usize = 50;
/// Bytes of those headers, names and values together: some clients give up on a head of 16 KiB.
pub const CUSTOM_HEADERS_BYTES_MAX: usize = 8 << 10;
/// How long an invocation's record is kept, in milliseconds (decisions §7).
pub const INVOCATION_KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Longest wait between two sweeps of what has expired, in milliseconds (interface §2.2: within the hour).
pub const SWEEP_INTERVAL_MS: u64 = 5 * 60 * 1000;
/// How long requests may take to finish once the server stops, in milliseconds.
pub const DRAIN_MS_MAX: u64 = 30 * 1000;

/// Connections at the same time, unless the operator says otherwise; never more than half of the files that may be open.
pub const CONNECTIONS_DEFAULT: usize = 10_000;
/// Bytes of a request that wait to be taken up, and so of a head that never ends.
pub const CONNECTION_BUFFER_BYTES_MAX: usize = 64 << 10;
/// Bytes of a request's headers, names and values together.
pub const HEADERS_BYTES_MAX: usize = 32 << 10;
/// Headers of a request: as many as hyper takes unless it is told otherwise, which would cost every request some.
pub const HEADERS_MAX: usize = 100;
/// Bytes of a request's address.
pub const URI_BYTES_MAX: usize = 16 << 10;
/// How long a request's head may take, the wait for its first byte included, in milliseconds.
pub const HEAD_MS_MAX: u64 = 75_000;
/// How long a TLS handshake may take, in milliseconds.
pub const HANDSHAKE_MS_MAX: u64 = 10_000;
/// How long a request's body may be slower than it must, in milliseconds.
pub const BODY_GRACE_MS: u64 = 20_000;
/// Bytes of a request's body that must arrive in a second, in the long run.
pub const BODY_BYTES_PER_SECOND_MIN: u64 = 8 << 10;
/// How long a client may take nothing of an answer, in milliseconds.
pub const WRITE_STALL_MS_MAX: u64 = 30_000;
/// Bytes of an answer that a client must take in a second, in the long run, while more of it waits to be sent.
pub const WRITE_BYTES_PER_SECOND_MIN: u64 = 8 << 10;
/// How long a new connection waits for a place when all are taken, in milliseconds.
pub const ROOM_MS_MAX: u64 = 250;
/// Connections without a place that wait for one, at the same time.
pub const CONNECTIONS_BESIDE_MAX: usize = 2_048;
/// Connections that have waited and read that there is no place, at the same time.
pub const CONNECTIONS_TOLD_MAX: usize = 1_024;
/// How often the log is told of connections that are refused, at most, in milliseconds.
pub const REFUSALS_LOGGED_MS: u64 = 1_000;
/// How long a connection that is asked to make room may still take for a request's head that it has begun, in
/// milliseconds.
pub const LEAVE_MS_MAX: u64 = 1_000;
/// Bytes of a certificate's or a key's file.
pub const PEM_BYTES_MAX: u64 = 1 << 20;
/// How often the files of the certificate are looked at, in milliseconds.
pub const CERTIFICATE_LOOK_MS: u64 = 5_000;
/// How long before its end a certificate is told of, in seconds.
pub const CERTIFICATE_ENDING_SECONDS: i64 = 14 * 24 * 3_600;
/// How long browsers are to insist on TLS once they have seen it, in seconds.
pub const STRICT_TRANSPORT_SECONDS: u64 = 365 * 24 * 3_600;
/// Unknown keys that one client may send before it is locked out, unless the operator says otherwise.
pub const LOCK_OUT_AFTER_DEFAULT: u32 = 20;
/// How long the first lock-out lasts, in milliseconds; each further one twice as long.
pub const LOCK_OUT_MS_FIRST: u64 = 1_000;
/// How long a lock-out lasts at most, in milliseconds.
pub const LOCK_OUT_MS_MAX: u64 = 60_000;
/// How long after its last unknown key a client counts as a new one, in milliseconds.
pub const LOCK_OUT_FORGET_MS: u64 = 15 * 60_000;
/// Keys that are remembered as good ones.
pub const GOOD_KEYS_MAX: usize = 10_000;
/// Free space on the store's disk below which nothing new is taken, in MiB.
pub const DISK_RESERVE_MB: u64 = 128;
/// The same for what reading and deleting must write, their log entries above all, in MiB.
pub const DISK_LAST_MB: u64 = 64;

/// Fuel of an invocation for each millisecond of its time: about half of what one core here burns, so that a formula
/// that computes all the time ends before its deadline.
pub const FUEL_PER_MS_DEFAULT: u64 = 10_000_000;
/// Invocations that run at the same time, unless the operator says otherwise.
pub const REACTOR_SLOTS_DEFAULT: u32 = 256;
/// Invocations of one tenant that wait, for each slot it may have, unless the operator says otherwise.
pub const REACTOR_QUEUE_PER_SLOT: u32 = 8;
/// Time that one tenant's invocations under way may compute, together, before they take turns with other long ones, in
/// milliseconds.
pub const FREE_CPU_MS: u64 = 20;
/// Memory that all invocations together may hold when the machine does not tell how much it has, in MiB.
pub const REACTOR_MEMORY_MB_UNKNOWN: u64 = 4_096;
/// The same when it does: a quarter of the machine's, and at least this, in MiB.
pub const REACTOR_MEMORY_MB_MIN: u64 = 512;
/// Bytes of that which are set aside for each slot: what a small formula holds.
pub const RUN_MEMORY_BYTES_FIRST: u64 = 256 << 10;
/// Machine code of formulas kept in memory, in MiB, unless the operator says otherwise.
pub const PROGRAMS_MEMORY_MB_DEFAULT: u64 = 512;
/// Uploads of components that wait until they are compiled, or are being compiled; and of those that may be larger than
/// other bodies, how many are taken in.
pub const UPLOADS_MAX: usize = 16;
/// The same, of one tenant.
pub const UPLOADS_PER_TENANT_MAX: usize = 4;
/// Address space of a process that compiles a component, in MiB.
pub const COMPILE_MEMORY_MB_MAX: u64 = 2_048;
/// Computing time of a process that compiles a component, in seconds, all its threads together.
pub const COMPILE_CPU_SECONDS_MAX: u64 = 60;
/// Bytes of one component's compiled code.
pub const COMPILED_BYTES_MAX: usize = 512 << 20;
/// Compiled code kept on disk, in MiB, unless the operator says otherwise.
pub const COMPILED_CACHE_MB_DEFAULT: u64 = 1_024;
/// What an option may give in MiB at most: more than any machine has, and in bytes a number still.
pub const OPTION_MB_MAX: u64 = 1 << 24;
/// Memory of the store's cache, in MiB, unless the operator says otherwise.
pub const CACHE_MB_DEFAULT: u64 = 256;
/// Calls of its host that one invocation may make.
pub const HOST_CALLS_MAX: u64 = 1_000_000;
/// Calls of `svc` that one invocation may make.
pub const SVC_CALLS_MAX: u64 = 1_000;

/// Requests that one invocation may send to other hosts.
pub const HTTP_CALLS_MAX: u64 = 100;
/// Requests of one run that are under way beside each other, or whose answers it has not taken.
pub const HTTP_CALLS_UNDER_WAY_MAX: usize = 8;
/// Bytes of an outbound request's body, and of its answer's.
pub const HTTP_BODY_BYTES_MAX: usize = 4 << 20;
/// Bytes of one run's requests that are under way, together: two of the largest bodies, and what stands before bodies.
pub const HTTP_BODIES_UNDER_WAY_BYTES_MAX: usize = 9 << 20;
/// Headers of an outbound request, and of its answer.
pub const HTTP_HEADERS_MAX: usize = 100;
/// Bytes of an outbound request's headers, and of its answer's: names and values.
pub const HTTP_HEADERS_BYTES_MAX: usize = 64 << 10;
/// Bytes of an outbound request's address.
pub const HTTP_URL_BYTES_MAX: usize = 8 << 10;
/// Characters of an outbound request's method.
pub const HTTP_METHOD_CHARS_MAX: usize = 32;
/// Redirects that an outbound request may follow.
pub const HTTP_REDIRECTS_MAX: u8 = 10;
/// Addresses of one name that are tried.
pub const HTTP_ADDRESSES_MAX: usize = 8;
/// How long a connection may take to be there, its name looked up, in milliseconds.
pub const HTTP_CONNECT_MS: u64 = 30_000;
/// Names that are looked up at the same time: each keeps a thread.
pub const HTTP_LOOKUPS_MAX: usize = 128;
/// The same, for one owner.
pub const HTTP_LOOKUPS_PER_OWNER_MAX: usize = 16;
/// Names among them that were not prompt the last time, or were not looked up before.
pub const HTTP_OTHER_LOOKUPS_MAX: usize = 96;
/// The same, for one owner.
pub const HTTP_OTHER_LOOKUPS_PER_OWNER_MAX: usize = 12;
/// Names among these that took long the last time.
pub const HTTP_SLOW_LOOKUPS_MAX: usize = 64;
/// The same, for one owner.
pub const HTTP_SLOW_LOOKUPS_PER_OWNER_MAX: usize = 4;
/// How long that is, in milliseconds.
pub const HTTP_SLOW_LOOKUP_MS: u64 = 1_000;
/// How long it is remembered of a name whether it was prompt, in milliseconds.
pub const HTTP_NAME_KNOWN_MS: u64 = 600_000;
/// Names of which that is remembered.
pub const HTTP_NAMES_KNOWN_MAX: usize = 4_096;
/// How long a name waits for a place to be looked up, in milliseconds.
pub const HTTP_LOOKUP_WAIT_MS: u64 = 5_000;
/// Owners whose places for looking up names are remembered while they use none.
pub const HTTP_LOOKUP_OWNERS_MAX: usize = 1_024;
/// How long it is remembered that a name has no address, in milliseconds.
pub const HTTP_UNKNOWN_MS: u64 = 3_000;
/// Names of which that is remembered.
pub const HTTP_UNKNOWN_MAX: usize = 1_024;
/// Hosts that connections are kept for while nothing is sent.
pub const HTTP_POOLS_MAX: usize = 256;
/// The same, of one owner.
pub const HTTP_POOLS_PER_OWNER_MAX: usize = 16;
/// Connections of one owner to one host that are kept while nothing is sent.
pub const HTTP_IDLE_MAX: usize = 4;
/// How long such a connection is kept, in milliseconds: less than the five seconds after which common servers close theirs, since
/// what is sent on one that is just being closed may be lost.
pub const HTTP_IDLE_MS: u64 = 4_000;

/// How long a command may take to print the root key when the operator sets nothing, in seconds.
pub const ROOT_KEY_COMMAND_SECONDS_DEFAULT: u64 = 60;
/// Bytes of a file or an output that may hold a root key.
pub const ROOT_KEY_TEXT_BYTES_MAX: usize = 4 << 10;
/// How long a tenant's key that was rotated stays in memory after nothing is sealed with it, in milliseconds: longer than
/// any request goes on.
pub const RETIRED_KEY_MS: u64 = 10 * 60 * 1000;
/// How often the store is compacted when the operator sets nothing, in seconds.
pub const COMPACT_SECONDS_DEFAULT: u64 = 86_400;
/// How long after its start a server first looks whether to, at most, in seconds: one that is started often is to get there.
pub const COMPACT_FIRST_SECONDS_MAX: u64 = 3_600;
/// How often a server whose disk is full looks whether that gives space back, in seconds.
pub const COMPACT_FULL_SECONDS: u64 = 300;
/// Denied attempts of one actor and kind that are logged one by one in [`DENIALS_WINDOW_MS`]; more are counted (decisions §10).
pub const DENIALS_LOGGED_MAX: u32 = 100;
/// How long denied attempts are counted together, in milliseconds.
pub const DENIALS_WINDOW_MS: u64 = 60_000;
/// Counts of denied attempts that are kept at the same time; past that they name no actor.
pub const DENIALS_COUNTED_MAX: usize = 100_000;
/// The same, of one tenant.
pub const DENIALS_COUNTED_TENANT_MAX: usize = 10_000;
/// Log entries that one commit removes at the end of their time.
pub const LOG_ENTRIES_REMOVED_AT_ONCE: usize = 500;
