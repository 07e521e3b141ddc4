//! Requests from other processes: the kernel's of FUSE, and places and commands of direct access.

use granary_direct::place::PathPlace;
use granary_direct::wire::Op;
use granary_fuse::Request;

/// Bytes of a request's head.
const HEAD: usize = 40;
/// Numbers of requests, and some that are none.
const CODES: u32 = 64;

/// Decodes them as all three.
pub(super) fn run(bytes: &[u8]) {
    if let Ok(request) = Request::decode(bytes) {
        drop(format!("{:?}", request.op));
        assert_eq!(request.keep().request().unique, request.unique);
    }
    // With the length right, so that it is looked into.
    if bytes.len() >= HEAD {
        let mut whole = bytes.to_vec();
        whole[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        drop(Request::decode(&whole).map(|request| format!("{:?}", request.op)));
    }
    let mut rest = bytes;
    while let Some((place, behind)) = PathPlace::parse(rest) {
        assert!(place.bytes() + behind.len() == rest.len(), "what is read is gone");
        rest = behind;
    }
    if let Some(first) = bytes.first_chunk() {
        let number = u32::from_ne_bytes(*first);
        assert!(Op::of(number).is_none_or(|op| op as u32 == number));
    }
}

/// A head of each request with some names behind it.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let of = |code: u32| {
        let body = [&[7; 64][..], b"name\0other name\0", &[1; 40]].concat();
        let mut bytes = vec![0; HEAD];
        bytes[..4].copy_from_slice(&((HEAD + body.len()) as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&code.to_le_bytes());
        bytes[8] = 1;
        bytes.extend(body);
        bytes
    };
    (0..CODES).map(of).collect()
}
