// Names of the cells and features of a 10x matrix in Matrix Market form: a line each, columns
// between tabs. Pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::format::tenx {

using SourcePtr = std::shared_ptr<const io::ByteSource>;

inline constexpr std::size_t kMaxLineBytes = 64 << 10;

struct FeatureList {
  std::vector<std::string> names;  // symbols; ids where there is one column only
  std::vector<std::string> ids;    // empty where there is one column only
  std::vector<std::string> types;  // empty where the features have none
};

// What the header of the matrix says.
struct MtxShape {
  std::int64_t n_features = 0;
  std::int64_t n_cells = 0;
};

// Columns id, symbol and, where has_types, type; more are left out, as scanpy does. Throws
// kCorruptData naming the line: another number of lines than features, of columns, damaged text.
FeatureList read_features(SourcePtr source, const MtxShape& shape, bool has_types);

// Throws kCorruptData where there are not as many lines as cells. Reads all, keeps nothing.
void check_barcodes(SourcePtr source, const MtxShape& shape);
// The first column of a line, without quotes. Throws kCorruptData naming the line.
std::string barcode_of(const std::string& path, std::int64_t line, std::string_view text);

}  // namespace cellfeed::format::tenx
