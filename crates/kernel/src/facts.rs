//! What decides whether the kernel driver can be installed.
