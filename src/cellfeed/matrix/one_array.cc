#include "cellfeed/matrix/one_array.h"

#include <arrow/api.h>

namespace cellfeed::matrix {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;

// Pieces without rows that came through Arrow's C interface may begin behind their memory.
arrow::Result<ArrayPtr> in_bounds(const ArrayPtr& piece) {
  if (piece->length() > 0) return piece;
  if (piece->type_id() != arrow::Type::DICTIONARY) return arrow::MakeEmptyArray(piece->type());
  const auto& coded = static_cast<const arrow::DictionaryArray&>(*piece);
  ARROW_ASSIGN_OR_RAISE(const ArrayPtr codes, arrow::MakeEmptyArray(coded.indices()->type()));
  return std::make_shared<arrow::DictionaryArray>(coded.type(), codes, coded.dictionary());
}

}  // namespace

arrow::Result<ArrayPtr> one_array(const arrow::ChunkedArray& column) {
  if (column.num_chunks() == 1) return column.chunk(0);
  if (column.num_chunks() == 0) return arrow::MakeEmptyArray(column.type());
  arrow::ArrayVector pieces;
  for (const ArrayPtr& chunk : column.chunks()) {
    ARROW_ASSIGN_OR_RAISE(pieces.emplace_back(), in_bounds(chunk));
  }
  if (column.type()->id() != arrow::Type::DICTIONARY) return arrow::Concatenate(pieces);
  ARROW_ASSIGN_OR_RAISE(const auto united,
                        arrow::DictionaryUnifier::UnifyChunkedArray(
                            std::make_shared<arrow::ChunkedArray>(pieces, column.type())));
  return arrow::Concatenate(united->chunks());
}

}  // namespace cellfeed::matrix
