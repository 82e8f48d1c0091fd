//! A file that cannot be read beyond its end.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

/// Where a file ends without an error, the library skips what a damaged header counts, up to 2^31 values of
/// nothing, with a call of the system for each.
pub(super) struct Ending(pub(super) File);

impl Length for Ending {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Ending {
    type T = BufReader<Self>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut file = self.0.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(BufReader::new(Self(file)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.len()) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} are not in the file"
            )));
        }
        self.0.get_bytes(start, length)
    }
}

impl Read for Ending {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 if !into.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}
