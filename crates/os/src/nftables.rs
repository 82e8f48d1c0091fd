//! Tables of nftables, written as netlink requests (`linux/netfilter/nf_tables.h`).

use std::io;

use crate::netlink::{Netlink, NetlinkRequest, nested};

const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
/// The table goes with the socket that made it.
const TABLE_OWNER: u32 = 2;

/// Register 1, in which expressions put values and find them.
pub const REGISTER: u32 = 1;
/// Register 2.
pub const REGISTER2: u32 = 2;
/// Where verdicts go.
const VERDICT_REGISTER: u32 = 0;

/// Verdict: the packet is dropped.
pub const DROP: i32 = 0;
/// Verdict: the packet goes on.
pub const ACCEPT: i32 = 1;
/// Verdict: back to the chain that called this one, or to its policy.
pub const RETURN: i32 = -5;

/// The device that a packet came by: its name.
pub const META_FROM_DEVICE: u32 = 6;
/// The device that a packet leaves by: its name.
pub const META_TO_DEVICE: u32 = 7;
/// The protocol above IP.
pub const META_PROTOCOL: u32 = 16;
const META_MARK: u32 = 3;

/// In [`payload`]: offsets count from the header of IP.
pub const NETWORK_HEADER: u32 = 1;
/// In [`payload`]: offsets count from the header of TCP or UDP.
pub const TRANSPORT_HEADER: u32 = 2;

/// Bytes of a device's name, zeros at its end.
const DEVICE_BYTES: usize = 16;

/// One expression of a rule.
pub type Expression = Vec<u8>;

/// What a chain looks at, and when.
#[derive(Debug, Clone, Copy)]
pub struct ChainHook<'a> {
    /// `filter` or `nat`, with a zero at the end.
    pub kind: &'a [u8],
    /// 0: before routing, 2: forwarding, 4: after routing.
    pub hook: u32,
    /// Chains of one hook are called in the order of their priorities.
    pub priority: i32,
}

/// A table being written.
#[derive(Debug)]
pub struct NftTable {
    family: u8,
    name: Vec<u8>,
    requests: Vec<NetlinkRequest>,
}

impl NftTable {
    /// An empty table of a protocol family (`AF_INET`, `AF_INET6`).
    pub fn new(family: u8, name: &str) -> Self {
        let name = [name.as_bytes(), &[0]].concat();
        let mut table = Self { family, name, requests: vec![batch_mark(BATCH_BEGIN)] };
        let request = table.request(NEW_TABLE).with(2, &TABLE_OWNER.to_be_bytes());
        table.requests.push(request);
        table
    }

    /// Adds a chain; names end with a zero.
    pub fn chain(&mut self, name: &[u8], hook: ChainHook<'_>) {
        let place = nested(&[(1, hook.hook.to_be_bytes()), (2, hook.priority.to_be_bytes())]);
        let request = self.request(NEW_CHAIN).with(3, name).with(4, &place).with(7, hook.kind);
        self.requests.push(request);
    }

    /// Adds a rule behind those of a chain.
    pub fn rule(&mut self, chain: &[u8], expressions: &[Expression]) {
        let list: Vec<_> = expressions.iter().map(|expression| (1, expression)).collect();
        let request = self.request(NEW_RULE).with(2, chain).with(4, &nested(&list));
        self.requests.push(request);
    }

    /// Makes the table, which lasts as long as `owner` and the process.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN, or where the kernel lacks nftables or an expression.
    pub fn install(mut self, owner: &mut Netlink) -> io::Result<()> {
        self.requests.push(batch_mark(BATCH_END));
        owner.batch(self.requests)
    }

    fn request(&self, kind: u16) -> NetlinkRequest {
        // Without the last flag, each rule would be put before the others.
        let flags = libc::NLM_F_CREATE | libc::NLM_F_ACK | libc::NLM_F_APPEND;
        NetlinkRequest::new(kind, flags, &[self.family, 0, 0, 0]).with(1, &self.name)
    }
}

fn batch_mark(kind: u16) -> NetlinkRequest {
    NetlinkRequest::new(kind, 0, &[0, 0, 0, SUBSYSTEM as u8])
}

fn expression(name: &[u8], data: &[u8]) -> Expression {
    nested(&[(1, name), (2, data)])
}

/// Attributes that are numbers.
fn numbers(numbers: &[(u16, u32)]) -> Vec<u8> {
    let numbers: Vec<_> =
        numbers.iter().map(|(kind, value)| (*kind, value.to_be_bytes())).collect();
    nested(&numbers)
}

/// Loads something that is known of a packet.
pub fn meta(key: u32) -> Expression {
    expression(b"meta\0", &numbers(&[(1, REGISTER), (2, key)]))
}

/// Marks the packet with the value of [`REGISTER`].
pub fn set_mark() -> Expression {
    expression(b"meta\0", &numbers(&[(2, META_MARK), (3, REGISTER)]))
}

/// Loads bytes of a packet.
pub fn payload(header: u32, offset: u32, length: u32) -> Expression {
    let place = [(1, REGISTER), (2, header), (3, offset), (4, length)];
    expression(b"payload\0", &numbers(&place))
}

/// Loads the state of the packet's connection.
pub fn connection_state() -> Expression {
    const STATE: u32 = 0;
    expression(b"ct\0", &numbers(&[(1, REGISTER), (2, STATE)]))
}

/// Loads the type of the destination address, an `RTN_` number.
pub fn destination_type() -> Expression {
    const ADDRESS_TYPE: u32 = 3;
    const DESTINATION: u32 = 2;
    expression(b"fib\0", &numbers(&[(1, REGISTER), (2, ADDRESS_TYPE), (3, DESTINATION)]))
}

/// Clears the other bits of the register's first four bytes.
pub fn keep_bits(mask: [u8; 4]) -> Expression {
    let registers = numbers(&[(1, REGISTER), (2, REGISTER), (3, 4)]);
    let bits = nested(&[(4, nested(&[(1, mask)])), (5, nested(&[(1, [0; 4])]))]);
    expression(b"bitwise\0", &[registers, bits].concat())
}

/// Ends the rule unless the register, or its beginning, is this.
pub fn equals(value: &[u8]) -> Expression {
    compare(0, value)
}

/// Ends the rule if the register, or its beginning, is this.
pub fn differs(value: &[u8]) -> Expression {
    compare(1, value)
}

fn compare(operation: u32, value: &[u8]) -> Expression {
    let registers = numbers(&[(1, REGISTER), (2, operation)]);
    let value = nested(&[(3, nested(&[(1, value)]))]);
    expression(b"cmp\0", &[registers, value].concat())
}

/// Loads a constant.
pub fn load(register: u32, value: &[u8]) -> Expression {
    let data = nested(&[(1, value)]);
    expression(b"immediate\0", &nested(&[(1, register.to_be_bytes().as_slice()), (2, &data)]))
}

/// Gives the packet the address of the device that it leaves by.
pub fn masquerade() -> Expression {
    expression(b"masq\0", &[])
}

/// Gives the packet to a socket here that has the port in [`REGISTER2`] and, with `has_address`,
/// the address in [`REGISTER`].
pub fn to_local_socket(family: u8, has_address: bool) -> Expression {
    let mut registers = vec![(1, u32::from(family))];
    if has_address {
        registers.push((2, REGISTER));
    }
    registers.push((3, REGISTER2));
    expression(b"tproxy\0", &numbers(&registers))
}

/// Ends the rule with a verdict.
pub fn verdict(code: i32) -> Expression {
    let verdict = nested(&[(2, nested(&[(1, code.to_be_bytes())]))]);
    let data = [numbers(&[(1, VERDICT_REGISTER)]), nested(&[(2, verdict)])].concat();
    expression(b"immediate\0", &data)
}

/// A device's name as [`meta`] loads it, cut to its room.
pub fn device_name(name: &str) -> [u8; DEVICE_BYTES] {
    let mut padded = [0; DEVICE_BYTES];
    // The last byte stays zero.
    for (to, from) in padded[..DEVICE_BYTES - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_an_immediate_value_of_the_verdict_register() {
        let expected = [
            &[14, 0, 1, 0][..],
            b"immediate\0\0\0",
            &[28, 0, 2, 0, 8, 0, 1, 0, 0, 0, 0, 0],
            &[16, 0, 2, 0, 12, 0, 2, 0, 8, 0, 1, 0, 0xff, 0xff, 0xff, 0xfb],
        ];
        assert_eq!(verdict(RETURN), expected.concat());
    }

    #[test]
    fn names_of_devices_are_padded_and_cut() {
        assert_eq!(&device_name("eth0"), b"eth0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(&device_name("a-name-that-is-too-long"), b"a-name-that-is-\0");
    }
}
