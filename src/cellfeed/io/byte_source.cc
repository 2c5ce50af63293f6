#include "cellfeed/io/byte_source.h"

#include "cellfeed/base/error.h"

namespace cellfeed::io {

void check_range(const ByteSource& source, std::int64_t offset, std::int64_t length) {
  const std::int64_t size = source.size();
  if (offset >= 0 && length >= 0 && offset <= size && length <= size - offset) return;
  throw_error(ErrorKind::kCorruptData, source.path(),
              "truncated: a read ends outside the file, which is damaged or was cut short; copy or "
              "download it again: offset {}, wanted {} bytes, size {}",
              offset, length, size);
}

void check_requests(const ByteSource& source, std::span<const ReadRequest> requests) {
  for (const auto& request : requests) check_range(source, request.offset, std::ssize(request.out));
}

void require_all_pages(const ByteSource& source) {
  if (source.has_lost_pages())
    throw_error(ErrorKind::kIo, source.path(),
                "could not be read to its end: it was shortened or written over while it is open, "
                "or its disk failed; what it holds now must be opened again");
}

void require_unchanged(const ByteSource& source) {
  require_all_pages(source);
  if (!source.is_unchanged())
    throw_error(ErrorKind::kCorruptData, source.path(),
                "the file was written again since it was opened, so rows and labels may not belong "
                "together: open it again");
}

void ByteSource::read_many(std::span<const ReadRequest> requests) const {
  check_requests(*this, requests);
  for (const auto& request : requests) read(request.offset, request.out);
}

std::unique_ptr<PendingReads> ByteSource::begin_read_many(
    std::span<const ReadRequest> requests) const {
  read_many(requests);
  return nullptr;
}

}  // namespace cellfeed::io
