//! Bytes of a fuzzer as a list of choices.

use std::fmt::Write as _;

use cellpace_base::{Ecn, Param, ParamKind, Span, Time};
use cellpace_cc::registry;
use cellpace_udp::wire::{
    self, AcceptPacket, AckEntry, AckHead, CloseCode, Cookie, EcnCounts, Ids, Numbered,
};

/// Choices that are read one after the other. At the end all are zero.
pub(crate) struct Script<'a>(pub(crate) &'a [u8]);

impl<'a> Script<'a> {
    /// The next byte, as long as there is one.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// So many bytes, or those that are left.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Bytes with their number in front.
    pub(crate) fn some_bytes(&mut self) -> &'a [u8] {
        let count = self.byte();
        self.bytes(count.into())
    }

    /// Any size of number, and those one below a power of two, in two bytes.
    pub(crate) fn number(&mut self) -> u64 {
        let (value, scale) = (self.byte(), self.byte());
        u64::from(value).wrapping_shl(scale.into()).wrapping_sub(u64::from(scale >> 7))
    }

    /// A text of the registry, with values from both ends of what is allowed and from between, or
    /// any text. One in four is Sprout's, which has a half at the receiver.
    pub(crate) fn controller(&mut self) -> String {
        let choice = self.byte();
        if choice == u8::MAX {
            return String::from_utf8_lossy(self.some_bytes()).into_owned();
        }
        let known = registry();
        let sprout = known.iter().find(|info| info.name == "sprout");
        let info = match sprout {
            Some(sprout) if choice < 64 => sprout,
            _ => &known[usize::from(choice) % known.len()],
        };
        let mut text = info.name.to_owned();
        for index in 0..usize::from(choice >> 4 & 3) {
            let param = &info.params()[(index + usize::from(self.byte())) % info.params().len()];
            let value = self.value(param);
            let colon = if index == 0 { ':' } else { ',' };
            let _ = write!(text, "{colon}{}={value}", param.key);
        }
        text
    }

    /// One of few values, so that tables which were computed for one input serve others, too.
    fn value(&mut self, param: &Param) -> String {
        let choice = self.byte();
        let part = [0.0, 0.01, 0.3, 1.0][usize::from(choice & 3)];
        let between = |low: f64, high: f64| low + (high - low) * part;
        match param.kind {
            ParamKind::Number(low, high) => between(low, high.min(1e12)).to_string(),
            ParamKind::Integer(low, high) => {
                let whole = between(low as f64, high as f64) as u64;
                whole.clamp(low, high).to_string()
            }
            ParamKind::Bool => (choice & 1 == 1).to_string(),
            ParamKind::Span(low, high) => {
                let nanos = between(low.as_nanos() as f64, high.as_nanos() as f64) as u64;
                Span::from_nanos(nanos).clamp(low, high).to_string()
            }
            ParamKind::Word(words) => words[usize::from(choice) % words.len()].to_owned(),
            ParamKind::Text(_) if choice < 200 => {
                ["auto", "100", "1000", "2000", "2001", "16000"][usize::from(choice) % 6].to_owned()
            }
            ParamKind::Window if choice < 200 => format!("{choice}pkts"),
            _ => String::from_utf8_lossy(self.some_bytes()).into_owned(),
        }
    }

    /// A datagram of the native transport that somebody with the right ids could send, with a
    /// checksum that is right.
    pub(crate) fn datagram(&mut self, ids: Ids) -> Vec<u8> {
        let mut out = Vec::new();
        match self.byte() % 12 {
            0..=2 => {
                let (numbered, offset) = (self.numbered(), self.number());
                let payload = vec![7; usize::from(self.byte()) * 6];
                wire::write_data(&mut out, ids, numbered, offset, (&payload, &[]));
            }
            3 => {
                let (numbered, total) = (self.numbered(), self.number());
                wire::write_fin(&mut out, ids, numbered, total, &[self.byte(); 32]);
            }
            4..=6 => self.ack(ids, &mut out),
            7 => {
                wire::write_ping(&mut out, ids);
            }
            8 => {
                let code =
                    [CloseCode::Done, CloseCode::Stopped, CloseCode::Storage, CloseCode::Other];
                let code = code[usize::from(self.byte()) % 4];
                let text = String::from_utf8_lossy(self.some_bytes());
                wire::write_close(&mut out, ids, code, &text);
            }
            9 => {
                wire::write_closed(&mut out, ids);
            }
            10 => self.answer(ids, &mut out),
            _ => {
                let kind = self.byte();
                wire::Writer::new(&mut out, kind, ids).bytes(self.some_bytes()).end();
            }
        }
        wire::seal(&mut out);
        out
    }

    /// What the responder of a handshake says.
    fn answer(&mut self, ids: Ids, out: &mut Vec<u8>) {
        let flags = self.byte();
        match flags & 3 {
            0 => {
                let cookie = Cookie { issued_ms: self.number(), seal: [flags; 16] };
                wire::write_retry(out, ids, &cookie);
            }
            1 => {
                let text = String::from_utf8_lossy(self.some_bytes());
                wire::write_refuse(out, ids, CloseCode::Unsupported, &text);
            }
            _ => {
                let controller = self.controller();
                let accept = AcceptPacket {
                    unreliable: flags & 4 != 0,
                    delayed_acks: flags & 8 != 0,
                    ecn: flags & 16 != 0,
                    mtu: self.mtu(),
                    window: self.number(),
                    flows: flags.into(),
                    controller: &controller,
                };
                wire::write_accept(out, ids, &accept);
            }
        }
    }

    /// Mostly a size that is allowed.
    pub(crate) fn mtu(&mut self) -> u16 {
        match self.byte() {
            choice @ 0..128 => [1500, 1280, 9000][usize::from(choice) % 3],
            high => u16::from_be_bytes([high, self.byte()]),
        }
    }

    fn numbered(&mut self) -> Numbered {
        let (number, matters) = (self.number(), self.number() as u32);
        let stamp = (matters & 1 == 1).then(|| self.number());
        Numbered { number, matters, stamp }
    }

    fn ack(&mut self, ids: Ids, out: &mut Vec<u8>) {
        let [sequence, window, position, held_us] = [(); 4].map(|()| self.number());
        let head = AckHead {
            sequence,
            window,
            position,
            held_us: held_us as u32,
            report: self.some_bytes(),
            ecn: (held_us & 1 == 1).then_some(EcnCounts {
                ect0: sequence,
                ect1: position,
                ce: held_us,
            }),
        };
        let counts = self.byte();
        let entries: Vec<AckEntry> = (0..counts & 15)
            .map(|_| {
                let (number, micros) = (self.number(), self.number());
                let received_at = Time::from_nanos(micros.saturating_mul(1000));
                AckEntry { number, received_at, ecn: Ecn::from_bits(micros as u8) }
            })
            .collect();
        let mut below = self.number();
        let ranges: Vec<std::ops::Range<u64>> = (0..counts >> 4)
            .map_while(|_| {
                let end = below;
                let start = end.checked_sub(self.number())?.checked_sub(1)?;
                below = start.checked_sub(1 + u64::from(self.byte()))?;
                Some(start..end)
            })
            .collect();
        wire::write_ack(out, ids, 1400, &head, entries.into_iter(), ranges.iter());
    }
}
