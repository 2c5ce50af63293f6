// A byte source as a file of Arrow. Thread-safe as Arrow asks: ReadAt.
#pragma once

#include <arrow/io/interfaces.h>

#include <memory>
#include <string>

#include "cellfeed/io/byte_source.h"

namespace arrow {
class MemoryPool;
}

namespace cellfeed::series {

// Errors of the source become those of Arrow with their message. pool: of what is read; outlives
// the file.
std::shared_ptr<arrow::io::RandomAccessFile> arrow_file(std::shared_ptr<const io::ByteSource> from,
                                                        arrow::MemoryPool* pool);

}  // namespace cellfeed::series
