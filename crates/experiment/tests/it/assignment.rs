//! Which arm a connection gets.

use std::net::IpAddr;
use std::time::Duration;

use cellpace_experiment::Assigner;

use crate::experiment;

const NOW: Duration = Duration::from_secs(1_795_478_400);

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn all_hosts_agree_on_the_arm_of_a_slot() {
    let (one, other) =
        (Assigner::new(experiment("", "")), Assigner::new(experiment("seed = 0", "")));
    let mut drawn = [0; 2];
    for slot in 0..1000 {
        let now = NOW + Duration::from_secs(600) * slot;
        let first = one.assign(now, address("192.0.2.1"), b"a");
        let later = other.assign(now + Duration::from_secs(599), address("2001:db8::1"), b"b");
        assert_eq!(first, later);
        assert_eq!(first.slot, u64::from(slot) + 1_795_478_400 / 600);
        assert_eq!(one.arm_of_slot(first.slot), first.arm);
        let last_second = one.until_next_slot(now + Duration::from_secs(599));
        assert_eq!(last_second, Duration::from_secs(1));
        drawn[first.arm.unwrap()] += 1;
    }
    // Five standard deviations.
    assert!((420..=580).contains(&drawn[0]), "{drawn:?}");
}

#[test]
fn another_secret_name_or_seed_draws_other_arms() {
    let arms = |fields: &str, edit: (&str, &str)| -> Vec<Option<usize>> {
        let text = crate::text(fields, "").replace(edit.0, edit.1);
        let assigner = Assigner::new(crate::read(&text).unwrap());
        let assign =
            |slot| assigner.assign(NOW + Duration::from_secs(600) * slot, address("::1"), b"").arm;
        (0..64).map(assign).collect()
    };
    let same = arms("", ("", ""));
    assert_eq!(same, arms("share = \"100%\"", ("", "")));
    assert_ne!(same, arms("seed = 1", ("", "")));
    assert_ne!(same, arms("", ("\"bbr\"", "\"bbr2\"")));
    assert_ne!(same, arms("", ("cdef", "0000")));
}

#[test]
fn a_network_is_a_client() {
    let assigner = Assigner::new(experiment("assign = \"client\"", ""));
    let arm =
        |text: &str, at| assigner.assign(NOW + Duration::from_secs(at), address(text), b"").arm;
    for last in 0..=255 {
        assert_eq!(arm(&format!("192.0.2.{last}"), last), arm("192.0.2.1", 0));
        assert_eq!(arm(&format!("2001:db8:1:2::{last}"), last), arm("2001:db8:1:2::", 0));
        assert_eq!(arm(&format!("::ffff:192.0.2.{last}"), last), arm("192.0.2.1", 0));
    }
    let second =
        (0..2000).filter(|net| arm(&format!("10.{}.{}.1", net / 256, net % 256), 0) == Some(1));
    assert!((880..=1120).contains(&second.count()), "five standard deviations");
    assert_eq!(assigner.client(address("192.0.2.9")), assigner.client(address("192.0.2.200")));
    assert_ne!(assigner.client(address("192.0.2.9")), assigner.client(address("192.0.3.9")));
    let other = crate::text("", "").replace("cdef", "0000");
    let other = Assigner::new(crate::read(&other).unwrap());
    assert_ne!(assigner.client(address("192.0.2.9")), other.client(address("192.0.2.9")));
}

#[test]
fn shares_and_weights_are_kept() {
    let weighted = experiment(
        "assign = \"connection\"\nshare = \"20%\"",
        "[[arm]]\nname = \"x\"\nweight = 2.0\n",
    );
    let assigner = Assigner::new(weighted);
    let mut drawn = [0_u32; 4];
    for number in 0..20_000_u32 {
        let arm = assigner.assign(NOW, address("::1"), &number.to_le_bytes()).arm;
        drawn[arm.unwrap_or(3)] += 1;
    }
    for (count, expected) in drawn.into_iter().zip([1000, 1000, 2000, 16_000]) {
        // Six standard deviations.
        assert!(count.abs_diff(expected) < 400_u32, "{drawn:?}");
    }
}

#[test]
fn only_slots_of_arms_have_borders_and_a_washout() {
    let by_time = Assigner::new(experiment("slot = \"10s\"\nwashout = \"2s\"", ""));
    let border = Duration::from_secs(1_795_478_400);
    let washout =
        |after| by_time.assign(border + Duration::from_millis(after), address("::1"), b"").washout;
    assert!(washout(0) && washout(1999) && !washout(2000) && !washout(9999));
    let slot = by_time.slot(border);
    assert!(!by_time.crosses(slot, border + Duration::from_millis(9999)));
    assert!(by_time.crosses(slot, border + Duration::from_secs(10)));
    let by_client =
        Assigner::new(experiment("assign = \"client\"\nslot = \"10s\"\nwashout = \"2s\"", ""));
    assert!(!by_client.assign(border, address("::1"), b"").washout);
    assert!(!by_client.crosses(slot, border + Duration::from_secs(10)));
}
