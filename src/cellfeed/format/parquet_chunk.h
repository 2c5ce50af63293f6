// Where a column chunk of a Parquet file lies in the file. Pure.
#pragma once

#include <parquet/metadata.h>

#include <algorithm>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::format {

// From its dictionary on, where it has one. As the file says it: nobody has compared it with the
// length of the file.
inline io::ByteRange range_of_chunk(const parquet::ColumnChunkMetaData& chunk) {
  std::int64_t begin = chunk.data_page_offset();
  if (chunk.has_dictionary_page() && chunk.dictionary_page_offset() > 0)
    begin = std::min(begin, chunk.dictionary_page_offset());
  return {begin, chunk.total_compressed_size()};
}

}  // namespace cellfeed::format
