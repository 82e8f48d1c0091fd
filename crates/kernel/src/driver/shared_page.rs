//! Which process reads which ring: claims in memory that all clients share.

use std::sync::atomic::Ordering;

use super::installed::Installed;
use super::layout::{LAYOUT, MAGIC, NAME_BYTES, SLOTS, VERSION_BYTES, at};
use crate::KernelError;
use crate::host::bpf::{Map, Mapping};
use crate::host::clock::{now_ns, random};

/// Without a heartbeat for this long, a slot is for anybody to take.
const ABANDONED_NS: u64 = 3_000_000_000;
/// Low bits of an owner that are random; above them is the time of the claim in milliseconds.
const RANDOM_BITS: u32 = 20;

/// The shared page.
#[derive(Debug)]
pub(crate) struct SharedPage(Mapping);

impl SharedPage {
    /// Also checks that it is what we know.
    pub(crate) fn map(map: &Map) -> Result<Self, KernelError> {
        let shared = Self::map_any(map)?;
        let installed = shared.installed();
        if installed.layout != LAYOUT {
            let Installed { version, layout, .. } = installed;
            return Err(KernelError::OtherVersion { version, layout });
        }
        Ok(shared)
    }

    /// Of whatever version. Only what [`SharedPage::installed`] returns means something then.
    pub(crate) fn map_any(map: &Map) -> Result<Self, KernelError> {
        use std::os::fd::AsFd;
        let length = at::END.next_multiple_of(rustix::param::page_size());
        let mapping = Mapping::new(map.as_fd(), 0, length, true)
            .map_err(KernelError::system("mapping the kernel driver's shared page"))?;
        if mapping.u32(at::MAGIC).load(Ordering::Relaxed) != MAGIC {
            return Err(KernelError::Unsupported("its shared page is not one of cellpace".into()));
        }
        Ok(Self(mapping))
    }

    pub(crate) fn installed(&self) -> Installed {
        let word = |at| self.0.u32(at).load(Ordering::Relaxed);
        let layout = word(at::LAYOUT);
        let mut installed = Installed {
            layout,
            name: self.text::<NAME_BYTES>(at::NAME),
            version: self.text::<VERSION_BYTES>(at::VERSION),
            ..Installed::default()
        };
        if layout == LAYOUT {
            installed.ring_bytes = word(at::RING_BYTES);
            installed.sockets = self.0.u64(at::SOCKETS).load(Ordering::Relaxed);
            installed.fallbacks = self.0.u64(at::FALLBACKS).load(Ordering::Relaxed);
            for slot in 0..SLOTS {
                let taken = self.owner(slot) != 0 && !self.abandoned(slot);
                installed.slots.extend(taken.then(|| word(at::pid(slot))));
                installed.dropped += self.dropped(slot);
            }
        }
        installed
    }

    /// Takes a free or abandoned slot: its number and our name as its owner.
    pub(crate) fn claim(&self) -> Result<(usize, u64), KernelError> {
        let me = owner(now_ns(), random());
        (0..SLOTS)
            .find(|slot| self.take(*slot, me))
            .map(|slot| (slot, me))
            .ok_or(KernelError::NoSlot)
    }

    fn take(&self, slot: usize, me: u64) -> bool {
        // A claim carries its time, so that a slot is never taken for abandoned between the claim
        // and its first heartbeat.
        let before = self.owner(slot);
        if before != 0 && !self.abandoned(slot) {
            return false;
        }
        let owner = self.0.u64(at::owner(slot));
        if owner.compare_exchange(before, me, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        self.0.u64(at::beat(slot)).store(now_ns(), Ordering::Release);
        self.0.u64(at::dropped(slot)).store(0, Ordering::Relaxed);
        self.0.u32(at::pid(slot)).store(std::process::id(), Ordering::Relaxed);
        true
    }

    fn abandoned(&self, slot: usize) -> bool {
        let owner = self.owner(slot);
        let beat = self.0.u64(at::beat(slot)).load(Ordering::Acquire);
        is_abandoned(owner, beat, now_ns())
    }

    pub(crate) fn beat(&self, slot: usize, me: u64) -> Result<(), KernelError> {
        if self.is_removed() {
            return Err(KernelError::Removed);
        }
        if self.owner(slot) != me {
            return Err(KernelError::SlotLost);
        }
        self.0.u64(at::beat(slot)).store(now_ns(), Ordering::Release);
        Ok(())
    }

    /// Whoever writes records before `time_ns` need not wake us.
    pub(crate) fn rest_until(&self, slot: usize, time_ns: u64) {
        self.0.u64(at::resting_until(slot)).store(time_ns, Ordering::Release);
    }

    /// Gives the slot back, if it is still ours.
    pub(crate) fn free(&self, slot: usize, me: u64) {
        let owner = self.0.u64(at::owner(slot));
        let _ = owner.compare_exchange(me, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    pub(crate) fn owner(&self, slot: usize) -> u64 {
        self.0.u64(at::owner(slot)).load(Ordering::Acquire)
    }

    pub(crate) fn dropped(&self, slot: usize) -> u64 {
        self.0.u64(at::dropped(slot)).load(Ordering::Relaxed)
    }

    pub(crate) fn ring_bytes(&self) -> usize {
        self.0.u32(at::RING_BYTES).load(Ordering::Relaxed) as usize
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.0.u32(at::REMOVED).load(Ordering::Relaxed) != 0
    }

    /// From now on every socket looks after itself.
    pub(crate) fn set_removed(&self) {
        self.0.u32(at::REMOVED).store(1, Ordering::Release);
    }

    fn text<const N: usize>(&self, at: usize) -> String {
        let mut bytes = [0u8; N];
        self.0.copy(at, &mut bytes);
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// Never zero, which means: free.
fn owner(now_ns: u64, random: u64) -> u64 {
    let milliseconds = now_ns / 1_000_000;
    (milliseconds << RANDOM_BITS) | (random & ((1 << RANDOM_BITS) - 1)) | 1
}

fn is_abandoned(owner: u64, beat_ns: u64, now_ns: u64) -> bool {
    let claimed_ns = (owner >> RANDOM_BITS) * 1_000_000;
    now_ns.saturating_sub(beat_ns.max(claimed_ns)) > ABANDONED_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_abandoned_three_seconds_after_claim_and_heartbeat() {
        let second = 1_000_000_000;
        let claim = owner(10 * second, 0);
        assert_ne!(owner(0, 0), 0);
        assert!(!is_abandoned(claim, 0, 12 * second), "just claimed, no heartbeat yet");
        assert!(is_abandoned(claim, 0, 14 * second));
        assert!(!is_abandoned(claim, 13 * second, 14 * second));
        assert!(!is_abandoned(claim, 20 * second, 14 * second), "a heartbeat from another CPU");
    }

    #[test]
    fn two_claims_in_the_same_millisecond_differ() {
        assert_ne!(owner(5, 0b10), owner(5, 0b100));
    }
}
