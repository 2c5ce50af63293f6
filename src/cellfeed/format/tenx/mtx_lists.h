// The lists of cells and genes beside a matrix in Matrix Market form: a line each, columns between
// tabs, or between commas under a line of headings. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/base/csv_text.h"
#include "cellfeed/format/tenx/mtx_text.h"
#include "cellfeed/io/byte_source.h"

namespace cellfeed::format::tenx {

using SourcePtr = std::shared_ptr<const io::ByteSource>;

inline constexpr std::size_t kMaxLineBytes = 64 << 10;

// A list as far as its lines were counted: headings are none.
struct ListLength {
  std::string path;
  const char* what = "";  // "barcodes"
  std::int64_t n = 0;
  bool has_more = false;
  std::string first{};  // line, for messages; empty where it has headings
};

struct GeneList {
  ListLength length;
  std::vector<std::string> names;    // symbols; ids where there is one column only
  std::vector<std::string> ids;      // empty where there is one column only
  std::vector<std::string> types;    // empty where the genes have none
  std::vector<std::string> genomes;  // likewise
};

// Columns id, symbol and, where has_types, type; more are left out, as scanpy does. Stops behind
// `most` lines. Throws kCorruptData naming the line: another number of columns, damaged text.
GeneList read_features(const SourcePtr& source, bool has_types, std::int64_t most);
// Columns gene_id, gene_name and genome, by their headings. A gene without a name has its id.
GeneList read_gene_table(const SourcePtr& source, std::int64_t most);
// A list of names for the ids that `genes` has for names. Throws kCorruptData where it is of
// another length.
void read_gene_names(const SourcePtr& source, GeneList& genes);

// Calls visit with each line, of which blank ones at the end are none.
ListLength visit_lines(const SourcePtr& source, const char* what, std::int64_t most,
                       const std::function<void(std::int64_t line, std::string_view text)>& visit);
// For a list whose first line was counted, and has headings.
void leave_headings_out(ListLength& length);
// Its fields, which are views of the line and of `fields`. Throws kCorruptData naming the line.
const std::vector<std::string_view>& split_line(const std::string& path, std::int64_t line,
                                                std::string_view text, char separator,
                                                CsvFields& fields);
void require_columns(const std::string& path, std::int64_t line, std::size_t n, std::size_t wanted,
                     std::string_view text);

// Sets which axis of the matrix has the cells: as transpose says; without it, as its program writes
// it, or the other way round where only that fits the lists. Throws kCorruptData where they fit
// neither way, kUnsupported for more than can be numbered.
void orient(MtxHeader& header, const std::string& path, bool has_cells_first,
            std::optional<bool> transpose, const ListLength& cells, const ListLength& genes);

}  // namespace cellfeed::format::tenx
