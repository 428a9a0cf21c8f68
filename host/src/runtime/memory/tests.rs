use super::{Kept, Memory, Part, Refusal, Room, STEP_BYTES, is_of_the_system};
use crate::limits::RUN_MEMORY_BYTES_FIRST as FIRST;
use proptest::prelude::*;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wasmtime::{Error, ResourceLimiter as _};

const MIB: u64 = 1 << 20;

/// Room for so many MiB beyond what 16 slots have, and so many owners' parts of it.
fn room<const OWNERS: usize>(mb: u64) -> (Arc<Room>, [Arc<Part>; OWNERS]) {
    let room = Arc::new(Room::new(mb * MIB + 16 * FIRST, 16));
    let parts = std::array::from_fn(|_| Arc::new(Part::of(&room)));
    (room, parts)
}

fn taken(room: &Room) -> u64 {
    room.taken.load(Ordering::Relaxed)
}

/// Lets a run grow to so many bytes.
fn grow(memory: &mut Memory, bytes: u64) -> Result<(), Refusal> {
    let (from, to) = (memory.bytes, bytes);
    let (from, to) = (usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
    let grown = memory.memory_growing(from, to, None).unwrap();
    if grown { Ok(()) } else { Err(memory.refused.unwrap()) }
}

#[test]
fn a_small_run_takes_nothing_and_a_larger_one_in_steps() {
    let (room, [part]) = room(16);
    let mut memory = Memory::new(part, 64 * MIB);
    grow(&mut memory, FIRST / 2).unwrap();
    grow(&mut memory, FIRST).unwrap();
    assert_eq!((taken(&room), memory.peak_bytes), (0, FIRST));
    grow(&mut memory, FIRST + 1).unwrap();
    assert_eq!(taken(&room), STEP_BYTES);
    grow(&mut memory, FIRST + STEP_BYTES).unwrap();
    assert_eq!(taken(&room), STEP_BYTES);
    grow(&mut memory, FIRST + 3 * STEP_BYTES + 1).unwrap();
    assert_eq!(taken(&room), 4 * STEP_BYTES);
    drop(memory);
    assert_eq!(taken(&room), 0);
}

#[test]
fn what_the_host_keeps_for_a_run_counts_as_its_owners() {
    let (room, [part]) = room(16);
    let mut memory = Memory::new(Arc::clone(&part), 64 * MIB);
    let kept = [(); 2].map(|()| Kept::of(Some(Arc::clone(&part))));
    let mib = 1 << 20;
    assert!(kept[0].grow(4 * mib) && kept[0].grow(mib) && kept[1].grow(2 * mib));
    assert!(!kept[1].grow(mib + (32 << 10) + 1));
    assert_eq!((kept[0].refused(), kept[1].refused()), (None, Some(Refusal::Owner)));
    assert_eq!(taken(&room), 7 * MIB - (32 << 10));
    assert_eq!(grow(&mut memory, FIRST + 2 * MIB), Err(Refusal::Owner));
    // What is short needs no room, of whoever has none left.
    part.take(MIB + (32 << 10)).unwrap();
    let short = Kept::of(Some(Arc::clone(&part)));
    assert!(short.grow(16 << 10) && !short.grow(1));
    part.give_back(MIB + (32 << 10));
    drop(short);
    drop(kept);
    assert_eq!(taken(&room), 0);
    grow(&mut memory, FIRST + 2 * MIB).unwrap();
    assert!(Kept::default().grow(64 * mib));
}

#[test]
fn an_owner_has_half_of_it_and_others_have_theirs() {
    let (room, [a, b, c]) = room(16);
    let run = |part: &Arc<Part>| Memory::new(Arc::clone(part), 64 * MIB);
    let (mut first, mut second) = (run(&a), run(&a));
    grow(&mut first, FIRST + 5 * MIB).unwrap();
    assert_eq!(grow(&mut second, FIRST + 4 * MIB), Err(Refusal::Owner));
    grow(&mut second, FIRST + 3 * MIB).unwrap();
    assert_eq!(grow(&mut second, FIRST + 3 * MIB + 1), Err(Refusal::Owner));
    let (mut third, mut fourth) = (run(&b), run(&c));
    grow(&mut third, FIRST + 7 * MIB).unwrap();
    // Less than a step is left once this one has what it wants.
    grow(&mut fourth, FIRST + MIB / 2).unwrap();
    assert_eq!(grow(&mut fourth, FIRST + MIB + 1), Err(Refusal::Host));
    // A refusal takes nothing, of the owner's part neither.
    assert_eq!(taken(&room), 16 * MIB);
    assert_eq!(c.taken.load(Ordering::Relaxed), MIB);
    // What one gives back another may have.
    drop(first);
    grow(&mut fourth, FIRST + MIB + 1).unwrap();
    assert_eq!(fourth.refused, Some(Refusal::Host));
    assert_eq!(grow(&mut fourth, 64 * MIB + 1), Err(Refusal::Formula));
    drop((second, third, fourth));
    assert_eq!(taken(&room), 0);
    for part in [a, b, c] {
        assert_eq!(part.taken.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn what_a_run_is_promised_holds_back_others_of_the_queue_and_nobody_else() {
    let (room, [a, b]) = room(16);
    let promised = |part: &Part| part.promised.load(Ordering::Relaxed);
    let first = Part::promise(&a, FIRST + 5 * MIB).unwrap();
    assert_eq!((taken(&room), promised(&a)), (0, 5 * MIB));
    assert!(Part::promise(&a, FIRST + 4 * MIB).is_err());
    let second = Part::promise(&a, FIRST + 3 * MIB).unwrap();
    // Whoever really grows has it.
    let mut other = Memory::new(Arc::clone(&a), 64 * MIB);
    grow(&mut other, FIRST + 4 * MIB).unwrap();
    drop(second);
    assert!(Part::promise(&a, FIRST + 1).is_err());
    drop(other);
    // What a run takes is not promised any more, and what it has not taken is given up as it ends.
    let mut run = Memory::new(Arc::clone(&a), 64 * MIB).with(Some(first));
    grow(&mut run, FIRST + 2 * MIB).unwrap();
    assert_eq!((taken(&room), promised(&a)), (2 * MIB, 3 * MIB));
    grow(&mut run, FIRST + 7 * MIB).unwrap();
    assert_eq!((taken(&room), promised(&a)), (7 * MIB, 0));
    assert!(Part::promise(&a, FIRST + 2 * MIB).is_err());
    drop(run);
    // A small one needs none, and none is promised all that its owner may have.
    let (little, much) = (Part::promise(&a, FIRST).unwrap(), Part::promise(&b, 64 * MIB).unwrap());
    assert_eq!((promised(&a), promised(&b)), (0, 6 * MIB));
    // What others hold cannot be promised, of all either.
    let (mut one, mut two) =
        (Memory::new(Arc::clone(&a), 64 * MIB), Memory::new(Arc::clone(&b), 64 * MIB));
    grow(&mut one, FIRST + 8 * MIB).unwrap();
    grow(&mut two, FIRST + 3 * MIB).unwrap();
    drop(much);
    let c = Arc::new(Part::of(&room));
    assert!(Part::promise(&c, FIRST + 6 * MIB).is_err());
    drop((little, one, two, Part::promise(&c, FIRST + 6 * MIB)));
    assert_eq!((taken(&room), promised(&a), promised(&b), promised(&c)), (0, 0, 0, 0));
    // Nor what others of the queue are promised, whoever's they are.
    let promise = |part: &Arc<Part>| Part::promise(part, FIRST + 6 * MIB);
    let (first, second) = (promise(&a).unwrap(), promise(&b).unwrap());
    assert_eq!(promise(&a).err(), Some(Refusal::Owner));
    assert_eq!((promise(&c).err(), promised(&c)), (Some(Refusal::Host), 0));
    drop(first);
    drop((promise(&c).unwrap(), second));
    assert_eq!(room.promised.load(Ordering::Relaxed), 0);
}

#[test]
fn what_is_set_aside_for_slots_is_at_most_half() {
    for (bytes, slots, first, left) in [
        (512 * MIB, 256, FIRST, 512 * MIB - 256 * FIRST),
        (MIB, 256, 2 * 1024, MIB / 2),
        (0, 16, 0, 0),
        (MIB, 0, FIRST, MIB - FIRST),
    ] {
        let room = Room::new(bytes, slots);
        assert_eq!((room.first, room.bytes_max), (first, left), "{bytes} bytes, {slots} slots");
    }
}

#[test]
fn memories_of_one_run_count_together() {
    let (_, [part]) = room(64);
    let mut memory = Memory::new(part, 10 * MIB);
    let mib = 1 << 20;
    assert!(memory.memory_growing(0, 6 * mib, None).unwrap());
    // Another one begins with nothing.
    assert!(!memory.memory_growing(0, 6 * mib, None).unwrap());
    assert_eq!((memory.refused, memory.peak_bytes), (Some(Refusal::Formula), 6 * MIB));
    assert!(memory.memory_growing(0, 4 * mib, None).unwrap());
    assert!(!memory.memory_growing(6 * mib, 6 * mib + 1, None).unwrap());
    assert_eq!(memory.peak_bytes, 10 * MIB);
}

#[test]
fn too_large_a_table_is_for_want_of_memory() {
    let (_, [part]) = room(1);
    let mut memory = Memory::new(part, MIB);
    assert!(memory.table_growing(0, 20_000, None).unwrap());
    assert_eq!(memory.refused, None);
    assert!(!memory.table_growing(0, 20_001, None).unwrap());
    assert_eq!(memory.refused, Some(Refusal::Formula));
}

/// An image of a memory that could not be made: its cause is its source.
#[derive(Debug, thiserror::Error)]
#[error("cannot create a memfd")]
struct NoImage(#[source] io::Error);

#[test]
fn what_the_system_gives_no_memory_for_is_told_apart_however_it_is_told() {
    let of_io = |number: Errno| io::Error::from(number);
    for (wants, error) in [
        (true, Error::from(Errno::NOMEM)),
        (true, Error::from(Errno::NOMEM).context("mmap failed")),
        (true, Error::from(of_io(Errno::NOMEM))),
        (true, Error::from(of_io(Errno::NOMEM)).context("unable to make memory readonly")),
        (true, Error::from(io::Error::from(io::ErrorKind::OutOfMemory))),
        (true, Error::from(NoImage(of_io(Errno::MFILE)))),
        (true, Error::from(NoImage(of_io(Errno::NFILE))).context("no image")),
        (false, Error::from(Errno::INVAL)),
        (false, Error::from(Errno::ACCESS).context("unable to make memory executable")),
        (false, Error::from(of_io(Errno::IO))),
        (false, Error::from(NoImage(of_io(Errno::PERM)))),
        (false, Error::from(io::Error::from(io::ErrorKind::UnexpectedEof))),
        // Words tell nothing: what is broken may hold any.
        (false, Error::msg("out of memory")),
    ] {
        assert_eq!(is_of_the_system(&error), wants, "{error:?}");
    }
}

proptest! {
    /// Whatever runs do: nobody holds more than was taken for it, nothing is taken past its most, all goes back.
    #[test]
    fn the_books_balance(steps in prop::collection::vec((0..4_usize, 0..12 * MIB, any::<bool>()), 1..60)) {
        let (room, [a, b]) = room(8);
        let parts = [&a, &a, &b, &b];
        let mut runs = parts.map(|part| Memory::new(Arc::clone(part), 10 * MIB));
        for (at, bytes, ends) in steps {
            if ends {
                runs[at] = Memory::new(Arc::clone(parts[at]), 10 * MIB);
            } else if bytes > runs[at].bytes {
                let _ = grow(&mut runs[at], bytes);
            }
            let sum: u64 = runs.iter().map(|run| run.taken).sum();
            prop_assert_eq!(taken(&room), sum);
            prop_assert!(sum <= 8 * MIB);
            prop_assert_eq!(a.taken.load(Ordering::Relaxed), runs[0].taken + runs[1].taken);
            prop_assert!(runs[0].taken + runs[1].taken <= 4 * MIB);
            for run in &runs {
                prop_assert!(run.bytes <= FIRST + run.taken);
            }
        }
        drop(runs);
        prop_assert_eq!(taken(&room), 0);
    }
}
