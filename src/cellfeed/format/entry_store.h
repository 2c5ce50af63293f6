// EntryStore: a dataset whose matrix is stored otherwise than by rows, such as CSC or a list of
// entries. Of a RowStore it has all but the rows: whoever wants those makes them of its entries,
// which are read in pieces, in the order they are stored in. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/format/row_store.h"
#include "cellfeed/matrix/buffer.h"

namespace cellfeed::format {

// Entry i is in row rows[i] and column columns[i], both inside the matrix.
struct Entries {
  std::int64_t n = 0;
  matrix::Buffer<std::uint32_t> rows;
  matrix::Buffer<std::int32_t> columns;  // empty where only rows were asked for
  matrix::Buffer<std::byte> values;      // of the store's value_dtype; likewise
};

enum class EntryParts { kRows, kAll };

class EntryStore : public RowStore {
 public:
  // "by columns (CSC)": how the matrix is stored, for messages.
  virtual std::string storage() const = 0;
  // What of the path was chosen when it was opened: the same again opens the same entries.
  virtual OpenOptions choice() const;
  // All files that what it holds is read from.
  virtual std::vector<std::string> files() const = 0;

  // Stored ones, of which some may be left out.
  virtual std::int64_t n_entries() const { return info().nnz; }
  virtual std::int64_t n_pieces() const = 0;
  // Memory that reading one piece takes, entries included.
  virtual std::int64_t piece_bytes() const = 0;
  // Replaces what `entries` held. All that will be read of the matrix is checked: throws
  // kCorruptData naming the entry. REQUIRES: piece < n_pieces(). In what order pieces are read is
  // free, but a store that has to read from front to back makes later ones wait for earlier ones:
  // begin them in order.
  virtual void read_piece(std::int64_t piece, EntryParts parts, Entries& entries) const = 0;

  // Both throw kUnsupported: there are no rows.
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext& context = {}) const final;
  ReadPlan plan(std::span<const std::int64_t> rows) const final;
};

// By options.row_maker. Throws kUnsupported, saying what to do, where there is none.
std::vector<std::unique_ptr<RowStore>> make_rows(std::unique_ptr<EntryStore> store,
                                                 const OpenOptions& options);

}  // namespace cellfeed::format
