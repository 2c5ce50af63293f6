#include "cellfeed/format/tenx/mtx_barcodes.h"

#include <arrow/api.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"

namespace cellfeed::format::tenx {
namespace {

// Threads that ask at once are at most so many blocks apart, mostly.
constexpr std::size_t kKnownBlocks = 8;
// Arrow's strings have offsets of 32 bits.
constexpr std::int64_t kMaxBarcodeBytes = std::numeric_limits<std::int32_t>::max() - 1;

void require_room(const std::string& path, std::int64_t n_bytes, std::int64_t cell) {
  if (n_bytes > kMaxBarcodeBytes)
    throw_error(ErrorKind::kUnsupported, path,
                "more than 2 GiB of names cannot be read at once: up to that of cell {}", cell);
}

}  // namespace

MtxBarcodes::MtxBarcodes(std::shared_ptr<const io::ByteSource> source, const MtxShape& shape)
    : source_(std::move(source)), n_cells_(shape.n_cells) {
  check_barcodes(source_, shape);
}

std::shared_ptr<arrow::Array> MtxBarcodes::read(std::int64_t begin, std::int64_t end) const {
  const std::lock_guard lock(mutex_);
  if (!source_->is_unchanged())
    throw_error(ErrorKind::kCorruptData, source_->path(),
                "the file was written to since it was opened; open it again once it is whole");
  arrow::ArrayVector parts;
  std::int64_t n_bytes = 0;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t first = at / kBlockCells * kBlockCells;
    const std::int64_t stop = std::min(end, first + kBlockCells);
    parts.push_back(block(at / kBlockCells)->Slice(at - first, stop - at));
    n_bytes += static_cast<const arrow::StringArray&>(*parts.back()).total_values_length();
    require_room(source_->path(), n_bytes, stop - 1);
    at = stop;
  }
  if (parts.size() == 1) return parts.front();
  if (parts.empty()) parts.push_back(std::make_shared<arrow::StringArray>(0, nullptr, nullptr));
  auto all = arrow::Concatenate(parts);
  check_arrow(all.status());
  return *all;
}

MtxBarcodes::Names MtxBarcodes::block(std::int64_t number) const {
  for (const auto& [known, names] : known_)
    if (known == number) return names;
  try {
    if (!reader_ || number < next_) {
      reader_.emplace(source_, kMaxLineBytes);
      next_ = 0;
    }
    for (;;) {
      Names names = read_block();
      if (known_.size() == kKnownBlocks) known_.pop_front();
      known_.emplace_back(next_, names);
      if (next_++ == number) return names;
    }
  } catch (...) {
    reader_.reset();
    throw;
  }
}

MtxBarcodes::Names MtxBarcodes::read_block() const {
  const std::int64_t first = next_ * kBlockCells;
  const std::int64_t n = std::min(kBlockCells, n_cells_ - first);
  arrow::StringBuilder builder;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto line = reader_->next();
    if (!line)
      throw_error(ErrorKind::kCorruptData, source_->path(),
                  "the file was written to since it was opened: it ends before cell {}", first + i);
    const std::string name = barcode_of(source_->path(), reader_->number(), *line);
    require_room(source_->path(), builder.value_data_length() + std::ssize(name), first + i);
    check_arrow(builder.Append(name));
  }
  Names names;
  check_arrow(builder.Finish(&names));
  return names;
}

}  // namespace cellfeed::format::tenx
