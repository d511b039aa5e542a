// SPDX-License-Identifier: Apache-2.0
//! Sends bytes to the first device and back, through the C ABI:
//!
//!     bindgen --no-prepend-enum-name --size_t-is-usize --allowlist-function 'berth_.*' \
//!       --allowlist-type 'berth_.*' --allowlist-var 'BERTH_.*' -o berth.rs \
//!       "$(pkg-config --variable=includedir berth)/berth/berth.h" -- $(pkg-config --cflags berth)
//!     rustc --edition 2021 round_trip.rs $(pkg-config --libs-only-L berth) -l berth
//!     BERTH_DRIVER=auto ./round_trip

#[allow(dead_code, non_camel_case_types, non_upper_case_globals)]
mod berth {
    include!("berth.rs");
}

use berth::*;
use std::ffi::{c_void, CStr};
use std::ptr::{null, null_mut};

/// The calling thread's last failure.
fn checked(status: berth_status) -> Result<(), String> {
    if status == BERTH_OK {
        return Ok(());
    }
    let message = unsafe { CStr::from_ptr(berth_last_error_message()) };
    Err(message.to_string_lossy().into_owned())
}

struct Runtime(*mut berth_runtime);

impl Runtime {
    /// With the options of `BERTH_CONF`.
    fn new() -> Result<Self, String> {
        let mut runtime = null_mut();
        checked(unsafe { berth_runtime_create(null(), &mut runtime) })?;
        Ok(Runtime(runtime))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        unsafe { berth_runtime_destroy(self.0) }
    }
}

/// A pooled stream of `device`.
struct Stream<'a> {
    runtime: &'a Runtime,
    device: berth_device,
    stream: berth_stream,
}

impl<'a> Stream<'a> {
    fn acquire(runtime: &'a Runtime, device: berth_device) -> Result<Self, String> {
        let mut stream = unsafe { std::mem::zeroed() };
        checked(unsafe { berth_stream_acquire(runtime.0, device, 0, &mut stream) })?;
        Ok(Stream { runtime, device, stream })
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        unsafe { berth_stream_release(self.runtime.0, self.stream) };
    }
}

/// Device memory, ordered on a stream.
struct Block<'a> {
    stream: &'a Stream<'a>,
    allocator: *mut berth_allocator,
    data: *mut c_void,
    bytes: usize,
}

impl<'a> Block<'a> {
    fn allocate(stream: &'a Stream, bytes: usize) -> Result<Self, String> {
        let mut allocator = null_mut();
        let mut data = null_mut();
        let runtime = stream.runtime.0;
        checked(unsafe { berth_allocator_get_device(runtime, stream.device, &mut allocator) })?;
        checked(unsafe { berth_allocator_allocate(allocator, bytes, stream.stream, &mut data) })?;
        Ok(Block { stream, allocator, data, bytes })
    }

    fn write(&mut self, from: &[u8]) -> Result<(), String> {
        assert!(from.len() <= self.bytes);
        let (runtime, stream) = (self.stream.runtime.0, self.stream.stream);
        let source = from.as_ptr().cast();
        checked(unsafe { berth_copy_sync(runtime, self.data, source, from.len(), stream) })
    }

    fn read(&self, to: &mut [u8]) -> Result<(), String> {
        assert!(to.len() <= self.bytes);
        let (runtime, stream) = (self.stream.runtime.0, self.stream.stream);
        let target = to.as_mut_ptr().cast();
        checked(unsafe { berth_copy_sync(runtime, target, self.data, to.len(), stream) })
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        unsafe { berth_allocator_deallocate(self.allocator, self.data) };
    }
}

fn main() -> Result<(), String> {
    let runtime = Runtime::new()?;
    let first = berth_device { type_: BERTH_DEVICE_CUDA as i32, ordinal: 0 };
    let stream = Stream::acquire(&runtime, first)?;
    let sent = b"there and back";
    let mut received = [0; 14];
    let mut block = Block::allocate(&stream, sent.len())?;
    block.write(sent)?;
    block.read(&mut received)?;
    println!("{}", String::from_utf8_lossy(&received));
    if let Err(reason) = Block::allocate(&stream, usize::MAX / 2) {
        println!("refused: {reason}");
    }
    Ok(())
}
