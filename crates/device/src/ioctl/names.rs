//! Names of hosts and users in a program without shared libraries.

/// Looks names up in files and DNS only, if the C library is linked in. Otherwise glibc loads the modules of
/// /etc/nsswitch.conf, and crashes if they are of another version (2.36 with those of Debian 13).
pub fn without_modules() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    for (database, services) in [(c"hosts", c"files dns"), (c"passwd", c"files")] {
        // SAFETY: both strings end with a zero byte, and are never freed.
        unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    }
}

#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
unsafe extern "C" {
    /// Of glibc's nss.h.
    fn __nss_configure_lookup(
        database: *const std::ffi::c_char,
        services: *const std::ffi::c_char,
    ) -> std::ffi::c_int;
}
