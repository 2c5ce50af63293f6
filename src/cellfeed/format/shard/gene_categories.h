// The categories of categorical var columns, kept with genes.parquet: Parquet itself knows only the
// texts that occur, in the order in which they do. Pure.
#pragma once

#include <memory>
#include <string>

namespace arrow {
class Table;
}

namespace cellfeed::format::shard {

// Key of the file's metadata; the value is the base64 text of an Arrow IPC stream whose
// dictionaries hold the categories.
inline constexpr const char* kCategoriesKey = "cellfeed:categories";

// The same table, with its categories in the metadata of its schema. path: for messages.
std::shared_ptr<arrow::Table> note_categories(const std::shared_ptr<arrow::Table>& table,
                                              const std::string& path);
// The columns as note_categories saw them, and the metadata without the note. Tables without a note
// stay as they are. Throws kCorruptData when a value is none of its column's categories.
std::shared_ptr<arrow::Table> restore_categories(const std::shared_ptr<arrow::Table>& table,
                                                 const std::string& path);

}  // namespace cellfeed::format::shard
