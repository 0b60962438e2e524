//! Results as text, JSON and a page.

pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod text;
