//! Numbers from bytes that came from outside.

/// Reads big-endian fields one after the other; `None` where the bytes end before them.
#[derive(Debug, Clone, Copy)]
pub struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    /// A reader of all of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Reads the next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    /// Reads two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads as many bytes as the byte in front of them says.
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let count = self.u8()?;
        self.bytes(usize::from(count))
    }

    /// Returns what is not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_one_after_the_other_until_the_end() {
        let mut reader = ByteReader::new(&[1, 0, 2, 0, 0, 0, 3, 2, 8, 9, 7]);
        assert_eq!((reader.u8(), reader.u16(), reader.u32()), (Some(1), Some(2), Some(3)));
        assert_eq!(reader.counted(), Some(&[8, 9][..]));
        assert_eq!((reader.u64(), reader.rest()), (None, &[7][..]));
        assert_eq!((reader.array(), reader.u8()), (Some([7]), None));
    }
}
