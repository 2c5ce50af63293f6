#include "cellfeed/convert/shuffle/cell_shuffle.h"

#include <arrow/api.h>

#include <algorithm>
#include <cstring>

#include "cellfeed/base/error.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

// Small enough that putting a bucket in order stays within a processor's cache.
constexpr std::int64_t kBucketBytes = 16 << 20;
// A bucket holds a block of memory while it is filled: see BucketStore.
constexpr std::int64_t kBucketMemory = 16 << 10;

// In front of each row in its bucket.
struct RowHeader {
  std::uint32_t slot = 0;
  std::uint32_t length = 0;
  std::uint32_t nnz = 0;
  std::uint32_t not_finite = 0;
  double cell_library_size = 0;
};

struct PlacedRow {
  RowHeader header;
  const std::byte* bytes = nullptr;  // null: no row has the slot
};

std::int64_t choose_bucket_cells(const CellShuffleSpec& spec, std::int64_t n_cells) {
  const std::int64_t fitting =
      std::max<std::int64_t>(1, std::min(kBucketBytes, spec.memory_bytes / 8) /
                                    std::max<std::int64_t>(1, spec.cell_bytes));
  const auto bucket_memory = kBucketMemory * static_cast<std::int64_t>(spec.n_matrices);
  const std::int64_t most_buckets = std::max<std::int64_t>(1, spec.memory_bytes / bucket_memory);
  return std::min<std::int64_t>(std::max(fitting, (n_cells + most_buckets - 1) / most_buckets),
                                std::numeric_limits<std::uint32_t>::max());
}

std::vector<PlacedRow> find_rows(const std::vector<std::byte>& bytes, std::int64_t n_slots) {
  std::vector<PlacedRow> rows(static_cast<std::size_t>(n_slots));
  for (std::size_t at = 0; at < bytes.size();) {
    RowHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    at += sizeof header;
    rows[header.slot] = {header, bytes.data() + at};
    at += header.length;
  }
  return rows;
}

shard::EncodedRows join_rows(std::span<const PlacedRow> rows, bool keeps_library_sizes) {
  shard::EncodedRows joined;
  std::size_t bytes = 0;
  for (const PlacedRow& row : rows) bytes += row.header.length;
  joined.bytes.reserve(bytes);
  joined.lengths.reserve(rows.size());
  joined.nnz.reserve(rows.size());
  joined.not_finite.reserve(rows.size());
  for (const PlacedRow& row : rows) {
    if (row.bytes == nullptr) throw Error(ErrorKind::kInternal, "a shuffled cell is missing");
    const auto* begin = reinterpret_cast<const std::uint8_t*>(row.bytes);
    joined.bytes.insert(joined.bytes.end(), begin, begin + row.header.length);
    joined.lengths.push_back(row.header.length);
    joined.nnz.push_back(row.header.nnz);
    joined.not_finite.push_back(row.header.not_finite);
    if (keeps_library_sizes) joined.row_library_sizes.push_back(row.header.cell_library_size);
  }
  return joined;
}

}  // namespace

CellShuffle::CellShuffle(const Sources& sources, const std::shared_ptr<arrow::Schema>& obs_schema,
                         const CellShuffleSpec& spec)
    : sources_(sources),
      spec_(spec),
      order_(spec.seed, sources.n_cells()),
      bucket_cells_(choose_bucket_cells(spec, sources.n_cells())),
      n_buckets_((sources.n_cells() + bucket_cells_ - 1) / bucket_cells_),
      obs_(spec.dir, n_buckets_, spec.memory_bytes / 4),
      obs_scatter_(sources, obs_schema) {
  const auto n_matrices = static_cast<std::int64_t>(spec.n_matrices);
  for (std::int64_t m = 0; m < n_matrices; ++m)
    rows_.push_back(std::make_unique<BucketStore>(spec.dir, n_buckets_,
                                                  spec.memory_bytes * 3 / 4 / n_matrices));
}

BucketSlot CellShuffle::slot_of(std::int64_t source, std::int64_t row) const {
  const std::int64_t position = order_.position_of(sources_.offsets()[source] + row);
  if (spec_.is_finished[position / spec_.shard_size]) return {};
  const std::int64_t bucket = position / bucket_cells_;
  return {bucket, position - begin_of(bucket)};
}

CellShuffle::WantedRows CellShuffle::wanted_rows(const SourceRange& range) const {
  WantedRows wanted;
  wanted.rows.reserve(static_cast<std::size_t>(range.n_cells()));
  wanted.slots.reserve(wanted.rows.capacity());
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const BucketSlot slot = slot_of(range.source, row);
    if (slot.bucket < 0) continue;
    wanted.rows.push_back(row);
    wanted.slots.push_back(slot);
  }
  return wanted;
}

std::vector<ObsScatter::Piece> CellShuffle::scatter_obs(const SourceRange& range) {
  std::vector<BucketSlot> slots;
  slots.reserve(static_cast<std::size_t>(range.n_cells()));
  for (std::int64_t row = range.begin; row < range.end; ++row)
    slots.push_back(slot_of(range.source, row));
  return obs_scatter_.scatter(range, slots);
}

void CellShuffle::add_obs(const std::vector<ObsScatter::Piece>& pieces) {
  for (const auto& [bucket, bytes] : pieces)
    obs_.append(bucket, {reinterpret_cast<const std::byte*>(bytes->data()),
                         static_cast<std::size_t>(bytes->size())});
}

void CellShuffle::add_rows(std::size_t matrix, std::span<const BucketSlot> slots,
                           const shard::EncodedRows& rows) {
  BucketStore& store = *rows_[matrix];
  const auto* bytes = reinterpret_cast<const std::byte*>(rows.bytes.data());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const RowHeader header{static_cast<std::uint32_t>(slots[i].slot), rows.lengths[i], rows.nnz[i],
                           rows.not_finite.empty() ? 0 : rows.not_finite[i],
                           rows.row_library_sizes.empty() ? 0 : rows.row_library_sizes[i]};
    store.append(slots[i].bucket, std::as_bytes(std::span(&header, 1)));
    store.append(slots[i].bucket, {bytes, header.length});
    bytes += header.length;
  }
}

std::int64_t CellShuffle::plan_take_bytes(std::int64_t bucket) const {
  std::int64_t bytes = 4 * obs_.bytes(bucket);
  for (const auto& rows : rows_) bytes += 2 * rows->bytes(bucket);
  return bytes;
}

void CellShuffle::take_rows(std::size_t matrix, std::int64_t bucket, std::vector<Part>& parts) {
  const std::int64_t begin = begin_of(bucket);
  const std::int64_t end = std::min(sources_.n_cells(), begin + bucket_cells_);
  const std::vector<std::byte> bytes = rows_[matrix]->take(bucket);
  const std::vector<PlacedRow> rows = find_rows(bytes, end - begin);
  for (Part& part : parts)
    part.matrices.push_back(
        join_rows(std::span(rows).subspan(static_cast<std::size_t>(part.begin),
                                          static_cast<std::size_t>(part.obs->num_rows())),
                  matrix == 0 && spec_.keeps_library_sizes));
}

std::vector<CellShuffle::Part> CellShuffle::take(std::int64_t bucket) {
  const std::int64_t begin = begin_of(bucket);
  const std::int64_t end = std::min(sources_.n_cells(), begin + bucket_cells_);
  std::shared_ptr<arrow::Table> obs;
  if (obs_.bytes(bucket) > 0) obs = obs_scatter_.gather(obs_.take(bucket));
  std::vector<Part> parts;
  std::int64_t n_obs = 0;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t number = at / spec_.shard_size;
    const std::int64_t stop = std::min(end, (number + 1) * spec_.shard_size);
    if (!spec_.is_finished[number]) {
      parts.push_back({number, at - begin, obs->Slice(n_obs, stop - at), {}});
      n_obs += stop - at;
    }
    at = stop;
  }
  for (std::size_t m = 0; m < rows_.size(); ++m) take_rows(m, bucket, parts);
  return parts;
}

}  // namespace cellfeed::convert
