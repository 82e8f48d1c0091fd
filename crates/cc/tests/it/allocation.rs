//! No controller takes memory for a packet, an ack or an epoch once it runs.

use cellpace_cc::{
    Ack, AckedPacket, Controller, ControllerSpec, Random, RttEstimator, SentPacket, Setup, Span,
    Time, registry,
};

const MSS: u64 = 1500;

/// Two packets leave and two are acked every 4 ms, with an RTT that wanders.
fn run(controller: &mut dyn Controller, numbers: std::ops::Range<u64>) {
    let rtt = RttEstimator::default();
    for number in numbers {
        let now = Time::from_millis(100 + 2 * number);
        while controller.next_deadline().is_some_and(|deadline| deadline <= now) {
            controller.on_deadline(now);
        }
        let stamp = controller.on_sent(&SentPacket {
            now,
            number,
            bytes: MSS,
            in_flight: 20 * MSS,
            app_limited: false,
            retransmission: false,
        });
        let packet = AckedPacket {
            number,
            bytes: MSS,
            sent_at: now,
            rtt: Span::from_micros(40_000 + number * 977 % 20_000),
            received_at: None,
            app_limited: false,
            ecn: Default::default(),
            stamp,
        };
        controller.on_ack(&Ack {
            now,
            packets: &[packet],
            prior_in_flight: 20 * MSS,
            in_flight: 19 * MSS,
            next_number: number + 1,
            rtt: &rtt,
        });
        while controller.poll_event().is_some() {}
        let _ = (controller.cwnd(), controller.permit().remaining(19 * MSS), controller.pacing());
    }
}

#[test]
fn allocations_are_counted() {
    let taken = allocation_counter::measure(|| drop(std::hint::black_box(vec![0_u8; 10])));
    assert_eq!(taken.count_total, 1);
}

#[test]
fn packets_acks_and_epochs_take_no_memory() {
    for info in registry() {
        let spec: ControllerSpec = info.name.parse().expect("the name is in the registry");
        let random = Random::seeded(1, 0);
        let mut controller = spec.build(Setup { mss: MSS, start: Time::ZERO, random });
        run(controller.as_mut(), 0..20_000);
        let taken = allocation_counter::measure(|| run(controller.as_mut(), 20_000..25_000));
        assert_eq!(taken.count_total, 0, "{}", info.name);
    }
}
