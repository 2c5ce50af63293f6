// StoredTree: an open file of groups, attributes and arrays, whatever its format. What AnnData says
// of it is known in anndata/ alone. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/format/column_source.h"
#include "cellfeed/format/stored_array.h"
#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/read_ahead.h"
#include "cellfeed/io/seen_files.h"

namespace cellfeed::format {

enum class NodeKind {
  kGroup,
  kArray,
  kTable,  // an array of records, of one dimension
  kOther,
};

// How an array is stored, for who lists what there is.
struct ArrayTraits {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> chunk_shape;  // empty where it is not in chunks
  std::string value_dtype;                // "float32", "int64 (big endian)"
  std::string filters;                    // "none", "shuffle+gzip"
};

// A group or an array of a tree. Lifetime: the tree outlives it.
class StoredNode {
 public:
  virtual ~StoredNode() = default;
  virtual NodeKind kind() const = 0;
  // From the root of the file: "obs/cell_type".
  virtual const std::string& path() const = 0;
  virtual bool has_attribute(std::string_view name) const = 0;
  // None where it is absent or holds anything else: one text, texts, integers (booleans are 0 and
  // 1).
  virtual std::optional<std::string> text_attribute(std::string_view name) const = 0;
  virtual std::optional<std::vector<std::string>> texts_attribute(std::string_view name) const = 0;
  virtual std::optional<std::vector<std::int64_t>> integers_attribute(
      std::string_view name) const = 0;
  // Of a group, ascending; of a table its fields, as they are stored.
  virtual std::vector<std::string> member_names() const = 0;
  // Whether a group has one of this name.
  virtual bool has_member(const std::string& name) const = 0;

  // Of an array or a table, as those below.
  virtual std::vector<std::uint64_t> shape() const = 0;
  // For messages: "int32", "compound".
  virtual std::string type_text() const = 0;
  // Throws kUnsupported for what holds no numbers.
  virtual ArrayTraits traits() const = 0;
  virtual std::shared_ptr<const ColumnSource> values() const = 0;
  // Of one field. REQUIRES: a table that has it.
  virtual std::shared_ptr<const ColumnSource> field(const std::string& name) const = 0;
  // The array that its attribute "categories" leads to; null where there is no such attribute.
  // anndata 0.7 keeps it in a group "__categories" beside the columns. Throws kUnsupported where it
  // is not there.
  virtual std::unique_ptr<StoredNode> categories() const = 0;
};

// What of an array was never written: the fill value, or damage, where a sound writer leaves none
// out.
enum class MissingChunks { kFilled, kDamage };

// Who reads an array, and how.
struct ArrayUse {
  std::size_t rank = 1;
  std::int32_t key = 0;     // tells arrays of one file apart in a cache
  bool is_of_rows = false;  // its elements are read here and there
  MissingChunks missing = MissingChunks::kFilled;
};

// An array that is a field of the records of a table, as anndata 0.5 and 0.6 write obsm.
struct StoredField {
  std::int64_t n_rows = 0;
  std::int64_t n_cols = 1;
  std::int64_t first_col = 0;  // among the numbers of a record
  ArrayTraits traits;          // of the table
};

class StoredTree {
 public:
  virtual ~StoredTree() = default;
  virtual const std::string& path() const = 0;
  // Where in the file its paths begin: "" for the root, "mod/rna" for a modality.
  virtual std::string root() const { return {}; }
  // For messages: "HDF5 file", "zarr store".
  virtual std::string_view kind_name() const = 0;
  // Bytes on disk, as far as they are known without looking for them.
  virtual std::int64_t size() const = 0;
  // Throws kCorruptData where it was written to since it was opened, and kIo where bytes of it
  // could not be read, and were zeros instead: so it is asked before something is read, and again
  // before that is used.
  virtual void require_unchanged() const = 0;
  // As RowStore::seen_files.
  virtual std::shared_ptr<const io::SeenFiles> seen_files() const { return nullptr; }
  virtual void release_pages() const {}
  // For what will be read of row_bytes(). Null where nothing is read ahead.
  virtual const io::ReadAhead* ahead() const { return nullptr; }
  // The memory map that arrays of rows are read from, where there is one.
  virtual std::span<const std::byte> row_bytes() const { return {}; }
  // Of what arrays of rows are read from.
  virtual io::ReadCosts row_costs() const { return {}; }

  // Null where the path leads nowhere.
  virtual std::unique_ptr<StoredNode> find(const std::string& path) const = 0;
  // Throws kCorruptData, also where there is no array of this rank, or kUnsupported. Lifetime: the
  // tree outlives the array.
  virtual std::unique_ptr<StoredArray> open_array(const std::string& path,
                                                  const ArrayUse& use) const = 0;
  // None where the path is no such field.
  virtual std::optional<StoredField> find_field(const std::string&) const { return std::nullopt; }
  // Its records as rows of numbers. REQUIRES: find_field has it.
  virtual std::unique_ptr<StoredArray> open_field(const std::string& path) const;
  // All files that these arrays are read from.
  virtual std::vector<std::string> files_of(std::span<const std::string> arrays) const = 0;
  // A number that follows from what these groups hold, not from where they lie or when they were
  // written, and from `choice`.
  virtual std::uint64_t fingerprint(std::span<const std::string> groups,
                                    const std::string& choice) const = 0;
};

}  // namespace cellfeed::format
