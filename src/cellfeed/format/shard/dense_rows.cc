#include "cellfeed/format/shard/dense_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/cells_file_layout.h"
#include "cellfeed/io/range_reads.h"

namespace cellfeed::format::shard {
namespace {

constexpr std::int64_t kFileRowsPerTask = 32;

class DenseFileRows final : public FetchedRows {
 public:
  DenseFileRows(std::shared_ptr<const DenseFile> file, std::span<const std::int64_t> rows,
                bool counts_entries)
      : file_(std::move(file)),
        rows_(rows.begin(), rows.end()),
        counts_entries_(counts_entries),
        sizes_(rows.size(), file_->n_cols()) {
    if (const io::ByteSource* source = file_->reads()) {
      for (const std::int64_t row : rows_) reads_.add(*source, file_->stored_range(row));
      reads_.begin();
      return;
    }
    for (const std::int64_t row : rows_) file_->row(row);
    file_->read_ahead(rows_);
  }
  void wait() override { reads_.wait(); }
  std::int64_t n_tasks() const override {
    return (n_rows() + kFileRowsPerTask - 1) / kFileRowsPerTask;
  }
  void run(std::int64_t task) override {
    const std::int64_t end = std::min(n_rows(), (task + 1) * kFileRowsPerTask);
    for (std::int64_t i = task * kFileRowsPerTask; i < end; ++i) {
      file_->check(rows_[i], stored(i));
      if (!counts_entries_) continue;
      const RowPiece piece = piece_of(i);
      sizes_[i] = file_->decoder().count_entries({&piece, 1});
    }
  }
  std::int64_t n_rows() const override { return static_cast<std::int64_t>(rows_.size()); }
  void sizes(std::span<std::int64_t> nnz) const override {
    std::copy(sizes_.begin(), sizes_.end(), nnz.begin());
  }
  void decode(std::int64_t begin, std::int64_t end, const CsrTarget& target) const override {
    for (std::int64_t i = begin; i < end; ++i) {
      const RowPiece piece = piece_of(i);
      target.counts[i] =
          file_->decoder().decode(rows_[i], {&piece, 1}, target, target.place[i], sizes_[i]);
    }
    publish_row_copies(target.past_caches);
    file_->require_intact();
  }
  bool is_dense() const override { return true; }
  void decode_dense(std::int64_t begin, std::int64_t end,
                    const DenseTarget& target) const override {
    for (std::int64_t i = begin; i < end; ++i) {
      const RowPiece piece = piece_of(i), next = piece_of(std::min(i + 1, end - 1));
      file_->decoder().decode(rows_[i], {&piece, 1}, target, target.place[i],
                              {&next, std::size_t{i + 1 < end}});
    }
    publish_row_copies(target.past_caches);
    file_->require_intact();
  }
  std::int64_t bytes_read() const override { return bytes_used(); }
  std::int64_t bytes_held() const override { return reads_.bytes_held(); }
  std::int64_t bytes_used() const override {
    return n_rows() * file_->n_cols() * static_cast<std::int64_t>(sizeof(float));
  }

 private:
  std::span<const std::byte> stored(std::int64_t i) const {
    if (file_->reads() == nullptr) return {};
    return reads_.bytes(static_cast<std::size_t>(i));
  }
  RowPiece piece_of(std::int64_t i) const {
    if (file_->reads() == nullptr)
      return {reinterpret_cast<const std::byte*>(file_->row(rows_[i])), file_->n_cols()};
    return {stored(i).data() + file_->offset_in_range(rows_[i]), file_->n_cols()};
  }

  std::shared_ptr<const DenseFile> file_;
  std::vector<std::int64_t> rows_;
  const bool counts_entries_;
  std::vector<std::int64_t> sizes_;
  io::RangeReads reads_;  // the i-th is of rows_[i]
};

}  // namespace

DenseFile::DenseFile(std::shared_ptr<const io::ByteSource> source, std::int64_t n_rows,
                     std::int64_t n_cols, DenseFileOptions options)
    : source_(std::move(source)),
      tables_(source_),
      layout_(n_rows, n_cols, path()),
      decoder_(path(), "X", n_cols, DType::kF32),
      options_(std::move(options)) {
  const auto header_at = [&](std::int64_t begin) {
    begin = std::min(begin, source_->size());
    return tables_.read({begin, std::min<std::int64_t>(source_->size() - begin, kNpyHeaderBytes)});
  };
  const io::Bytes of_values = header_at(0), of_checksums = header_at(layout_.values_end);
  check_dense_file(layout_, of_values.view(), of_checksums.view(), source_->size(), path());
  // Now that the file is known to have as many.
  if (options_.check_identity)
    checked_ = std::vector<std::atomic<std::uint64_t>>(
        static_cast<std::size_t>(layout_.n_blocks + 63) / 64);
  const auto all = source_->map();
  if (all.empty()) return;
  values_ = reinterpret_cast<const float*>(all.data() + kNpyHeaderBytes);
  if (options_.reads_ahead) ahead_.emplace(*source_);
}

void DenseFile::read_ahead(std::span<const std::int64_t> rows) const {
  if (!ahead_) return;
  ahead_->ask(std::ssize(rows), [&](std::int64_t i, std::vector<io::ByteRange>& ranges) {
    ranges.push_back(stored_range(rows[i]));
  });
}

void DenseFile::require_row(std::int64_t row) const {
  if (row < 0 || row >= n_rows())
    throw_error(ErrorKind::kOutOfRange, path(), "row out of range: {}, rows {}", row, n_rows());
}

io::ByteRange DenseFile::stored_range(std::int64_t row) const {
  require_row(row);
  if (checked_.empty()) return {kNpyHeaderBytes + row * layout_.row_bytes, layout_.row_bytes};
  const std::int64_t block = row / layout_.rows_per_block;
  const std::int64_t begin = layout_.block_begin(block);
  return {begin, layout_.block_end(block) - begin};
}

const float* DenseFile::row(std::int64_t row) const {
  require_row(row);
  return values_ + row * n_cols();
}

void DenseFile::identify() const {
  if (is_identified_.load(std::memory_order_acquire)) return;
  const std::int64_t begin = layout_.checksums_begin;
  options_.check_identity(checksum_bytes(tables_.read({begin, layout_.file_bytes - begin}).view()));
  is_identified_.store(true, std::memory_order_release);
}

void DenseFile::check(std::int64_t row, std::span<const std::byte> stored) const {
  if (checked_.empty()) return;
  identify();
  const std::int64_t block = row / layout_.rows_per_block;
  const std::uint64_t bit = std::uint64_t{1} << (block % 64);
  auto& word = checked_[static_cast<std::size_t>(block / 64)];
  // What is read is read anew each time.
  if (stored.empty() && (word.load(std::memory_order_acquire) & bit) != 0) return;
  const io::Bytes table = tables_.read({layout_.checksums_begin + 8 * block, 8});
  std::uint64_t expected;
  std::memcpy(&expected, table.view().data(), sizeof(expected));
  const io::ByteRange range = stored_range(row);
  const io::Bytes mapped = stored.empty() ? tables_.read(range) : io::Bytes();
  const bool is_damaged = checksum_bytes(stored.empty() ? mapped.view() : stored) != expected;
  require_intact();
  if (is_damaged)
    throw_error(ErrorKind::kCorruptData, path(),
                "row {}: bytes [{}, {}) do not match their checksum, so the file is damaged; "
                "restore it or convert again",
                row, range.offset, range.offset + range.length);
  word.fetch_or(bit, std::memory_order_release);
}

std::unique_ptr<FetchedRows> begin_dense(std::shared_ptr<const DenseFile> file,
                                         std::span<const std::int64_t> rows,
                                         const ReadContext& context) {
  return std::make_unique<DenseFileRows>(std::move(file), rows, context.counts_entries);
}

std::int64_t plan_dense_bytes(const DenseFile& file, std::span<const std::int64_t> rows) {
  if (file.reads() == nullptr) return 0;
  std::int64_t bytes = 0;
  for (const std::int64_t row : rows) bytes += file.stored_range(row).length;
  return io::RangeReads::planned_bytes(*file.reads(), std::ssize(rows), bytes);
}

}  // namespace cellfeed::format::shard
