//! Columns of strings or bytes, in each of Arrow's layouts.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayAccessor, ArrayRef};
use arrow_schema::DataType;

/// Whether a column of this type can be read as text.
pub(super) const fn is_text(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    )
}

/// Calls `each` with the rows of a column of text and their values; `None` where there is none.
pub(super) fn each_text<E>(
    column: &ArrayRef,
    each: impl FnMut(usize, Option<&[u8]>) -> Result<(), E>,
) -> Result<(), E> {
    match column.data_type() {
        DataType::Utf8 => rows(column.as_string::<i32>(), each),
        DataType::LargeUtf8 => rows(column.as_string::<i64>(), each),
        DataType::Utf8View => rows(column.as_string_view(), each),
        DataType::Binary => rows(column.as_binary::<i32>(), each),
        DataType::LargeBinary => rows(column.as_binary::<i64>(), each),
        DataType::BinaryView => rows(column.as_binary_view(), each),
        _ => Ok(()),
    }
}

fn rows<'a, T, E>(array: T, mut each: impl FnMut(usize, Option<&[u8]>) -> Result<(), E>) -> Result<(), E>
where
    T: ArrayAccessor,
    T::Item: Texts<'a>,
{
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    for row in 0..array.len() {
        let is_null = nulls.is_some_and(|nulls| nulls.is_null(row));
        let value = if is_null { None } else { Some(array.value(row).bytes()) };
        each(row, value)?;
    }
    Ok(())
}

/// A string or bytes.
trait Texts<'a> {
    fn bytes(self) -> &'a [u8];
}

impl<'a> Texts<'a> for &'a str {
    fn bytes(self) -> &'a [u8] {
        self.as_bytes()
    }
}

impl<'a> Texts<'a> for &'a [u8] {
    fn bytes(self) -> &'a [u8] {
        self
    }
}

/// Returns a value of an array of text; `None` if there is none.
pub(super) fn bytes_of(values: &ArrayRef, index: usize) -> Option<&[u8]> {
    if index >= values.len() || values.is_null(index) {
        return None;
    }
    match values.data_type() {
        DataType::Utf8 => Some(values.as_string::<i32>().value(index).as_bytes()),
        DataType::LargeUtf8 => Some(values.as_string::<i64>().value(index).as_bytes()),
        DataType::Utf8View => Some(values.as_string_view().value(index).as_bytes()),
        DataType::Binary => Some(values.as_binary::<i32>().value(index)),
        DataType::LargeBinary => Some(values.as_binary::<i64>().value(index)),
        DataType::BinaryView => Some(values.as_binary_view().value(index)),
        _ => None,
    }
}
