#include "cellfeed/zarr/chunk_source.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/io/codecs.h"
#include "cellfeed/io/crc.h"
#include "cellfeed/io/unsized.h"

namespace cellfeed::zarr {
namespace {

// Between values, so that no read of one goes on into the next.
constexpr std::int64_t kGapBytes = 256 << 10;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 36;  // of shards, and of chunks of texts
constexpr std::int64_t kMaxAddress = std::int64_t{1} << 62;
// Files of a network that are held open; indexes of shards are kept with them.
constexpr std::size_t kMaxOpened = 4096;
constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;
constexpr std::size_t kIndexEntryBytes = 16;
constexpr std::size_t kIndexCrcBytes = 4;
constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

std::int64_t count_of(std::int64_t extent, std::int64_t chunk) {
  return extent / chunk + (extent % chunk != 0 ? 1 : 0);
}

// Reads of several values under way.
class ManyReads final : public io::PendingReads {
 public:
  explicit ManyReads(const KeyStore& store) : store_(store) {}
  void add(const std::string& key, std::shared_ptr<const io::ByteSource> source,
           std::span<const io::ReadRequest> requests) {
    if (store_.seen()) keys_.push_back(key);
    sources_.push_back(std::move(source));
    if (auto pending = sources_.back()->begin_read_many(requests))
      pending_.push_back(std::move(pending));
  }
  void wait() override {
    for (const auto& pending : pending_) pending->wait();
    for (const auto& source : sources_) io::require_unchanged(*source);
    for (const std::string& key : keys_) store_.look_again(key);
  }

 private:
  const KeyStore& store_;
  std::vector<std::string> keys_;
  std::vector<std::shared_ptr<const io::ByteSource>> sources_;
  std::vector<std::unique_ptr<io::PendingReads>> pending_;  // goes before the sources
};

}  // namespace

ChunkSource::ChunkSource(std::shared_ptr<const KeyStore> store, std::string path,
                         ArrayMetadata array)
    : store_(std::move(store)), name_(std::move(path)), array_(std::move(array)) {
  const auto& inner = array_.inner_shape();
  std::int64_t chunk_bytes = std::max<std::int64_t>(array_.type.bytes, 1);
  for (std::size_t d = 0; d < array_.shape.size(); ++d) {
    n_chunks_ *= count_of(array_.shape[d], inner[d]);
    n_values_ *= count_of(array_.shape[d], array_.chunk_shape[d]);
    n_inner_ *= array_.chunk_shape[d] / inner[d];
    chunk_bytes *= inner[d];
  }
  const bool is_plain = !array_.shards && array_.type.kind != TypeKind::kText;
  const auto most = is_plain ? static_cast<std::int64_t>(CodecChain::most_stored_bytes(
                                   static_cast<std::uint64_t>(chunk_bytes)))
                             : kMostBytes;
  span_ = most + kGapBytes + 1;
  if (n_values_ > kMaxAddress / span_)
    throw_error(ErrorKind::kUnsupported, store_->path(),
                "the zarr array '{}' has more chunks than are readable: {}", name_, n_values_);
}

ChunkSource::Address ChunkSource::address_of(std::int64_t chunk) const {
  const auto& inner = array_.inner_shape();
  Address address;
  std::int64_t values = 1, inners = 1;
  for (std::size_t d = array_.shape.size(); d-- > 0;) {
    const std::int64_t n = count_of(array_.shape[d], inner[d]);
    const std::int64_t at = chunk % n;
    const std::int64_t each = array_.chunk_shape[d] / inner[d];
    chunk /= n;
    address.value += at / each * values;
    address.inner += at % each * inners;
    values *= count_of(array_.shape[d], array_.chunk_shape[d]);
    inners *= each;
  }
  return address;
}

std::string ChunkSource::key_of_value(std::int64_t value) const {
  std::vector<std::int64_t> numbers(array_.shape.size());
  for (std::size_t d = numbers.size(); d-- > 0;) {
    const std::int64_t n = count_of(array_.shape[d], array_.chunk_shape[d]);
    numbers[d] = value % n;
    value /= n;
  }
  return name_ + "/" + array_.chunk_key(numbers);
}

std::string ChunkSource::key_of_chunk(std::int64_t chunk) const {
  return key_of_value(address_of(chunk).value);
}

void ChunkSource::throw_changed(const std::string& key) const {
  throw_error(ErrorKind::kCorruptData, store_->path(),
              "'{}' was written to since the store was opened: open it again once it is whole",
              key);
}

ChunkSource::Source ChunkSource::find_opened(std::int64_t value) const {
  const std::lock_guard lock(mutex_);
  const auto found = opened_.find(value);
  if (found == opened_.end()) return nullptr;
  uses_.splice(uses_.begin(), uses_, found->second.use);
  return found->second.source;
}

void ChunkSource::keep(std::int64_t value, Source source, Index index) const {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = opened_.try_emplace(value);
  if (is_new) {
    uses_.push_front(value);
    at->second.use = uses_.begin();
  }
  if (source) at->second.source = std::move(source);
  if (index && !at->second.index) {
    index_bytes_ += index->size();
    at->second.index = std::move(index);
  }
  while (opened_.size() > kMaxOpened || (index_bytes_ > kMaxIndexBytes && opened_.size() > 1)) {
    const auto last = opened_.find(uses_.back());
    if (last->second.index) index_bytes_ -= last->second.index->size();
    opened_.erase(last);
    uses_.pop_back();
  }
}

// Of a network, a file is opened to see whether it is there.
std::optional<ValueStatus> ChunkSource::status_of(std::int64_t value) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = statuses_.find(value);
    if (found != statuses_.end()) return found->second;
  }
  std::optional<ValueStatus> status;
  if (store_->is_local()) {
    status = store_->status(key_of_value(value));
  } else if (auto source = store_->open(key_of_value(value))) {
    status = store_->status(key_of_value(value));
    if (!status || status->bytes != source->size()) throw_changed(key_of_value(value));
    keep(value, std::move(source), nullptr);
  }
  if (status && store_->is_since_opened(*status)) throw_changed(key_of_value(value));
  if (status && status->bytes > span_ - kGapBytes - 1)
    throw_error(ErrorKind::kCorruptData, store_->path(),
                "damaged chunk: '{}' has {} bytes, more than any writer makes of it",
                key_of_value(value), status->bytes);
  const std::lock_guard lock(mutex_);
  return statuses_.try_emplace(value, status).first->second;
}

ChunkSource::Source ChunkSource::open_anew(std::int64_t value, const ValueStatus& status) const {
  const std::string key = key_of_value(value);
  Source source = store_->open(key);
  if (!source || source->size() != status.bytes) throw_changed(key);
  if (store_->is_local() && store_->status(key) != status) throw_changed(key);
  return source;
}

ChunkSource::Source ChunkSource::open(std::int64_t value) const {
  const auto status = status_of(value);
  if (!status)
    throw_error(ErrorKind::kNotFound, store_->path(), "there is no '{}'", key_of_value(value));
  if (store_->is_local()) return open_anew(value, *status);
  if (Source source = find_opened(value)) return source;
  Source source = open_anew(value, *status);
  keep(value, source, nullptr);
  return source;
}

ChunkSource::Index ChunkSource::index_of(std::int64_t value) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = opened_.find(value);
    if (found != opened_.end() && found->second.index) return found->second.index;
  }
  const std::string key = key_of_value(value);
  const ShardLayout& shards = *array_.shards;
  const std::size_t n_bytes = static_cast<std::size_t>(n_inner_) * kIndexEntryBytes;
  const std::size_t all = n_bytes + (shards.index_has_crc ? kIndexCrcBytes : 0);
  const Source source = open(value);
  if (source->size() < static_cast<std::int64_t>(all))
    throw_error(ErrorKind::kCorruptData, store_->path(),
                "damaged shard: '{}' has {} bytes, its index alone {}", key, source->size(), all);
  std::vector<std::byte> bytes(all);
  source->read(shards.index_is_first ? 0 : source->size() - static_cast<std::int64_t>(all), bytes);
  store_->look_again(key);
  if (shards.index_has_crc) {
    const auto stored = io::read_little_endian(std::span(bytes).last(kIndexCrcBytes));
    bytes.resize(n_bytes);
    if (const std::uint32_t computed = io::crc32c(bytes); stored != computed)
      throw_error(ErrorKind::kCorruptData, store_->path(),
                  "damaged shard: the CRC-32C of the index of '{}' is {:08x}, the shard says "
                  "{:08x}; copy or download it again",
                  key, computed, stored);
  }
  Index index = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  keep(value, nullptr, index);
  return index;
}

ChunkPlace ChunkSource::locate_in_shard(const Address& address, const ValueStatus& status) const {
  const Index index = index_of(address.value);
  const auto entry = std::span(*index).subspan(
      static_cast<std::size_t>(address.inner) * kIndexEntryBytes, kIndexEntryBytes);
  const std::uint64_t offset = io::read_little_endian(entry.first(8));
  const std::uint64_t n_bytes = io::read_little_endian(entry.last(8));
  if (offset == kNowhere && n_bytes == kNowhere) return {ChunkState::kLeftOut, {}};
  const auto all = static_cast<std::uint64_t>(status.bytes);
  if (offset > all || n_bytes > all - offset || n_bytes == 0)
    throw_error(ErrorKind::kCorruptData, store_->path(),
                "damaged shard: '{}' has {} bytes, chunk {} in it is said to be at {}, {} bytes",
                key_of_value(address.value), all, address.inner, offset, n_bytes);
  return {ChunkState::kWritten,
          {address.value * span_ + static_cast<std::int64_t>(offset),
           static_cast<std::int64_t>(n_bytes)}};
}

ChunkPlace ChunkSource::locate(std::int64_t chunk) const {
  const Address address = address_of(chunk);
  const auto status = status_of(address.value);
  if (!status) return {};
  if (array_.shards) return locate_in_shard(address, *status);
  if (status->bytes == 0)
    throw_error(ErrorKind::kCorruptData, store_->path(), "damaged chunk: '{}' is empty",
                key_of_value(address.value));
  return {ChunkState::kWritten, {address.value * span_, status->bytes}};
}

std::span<const std::byte> ChunkSource::mapped(const io::ByteRange& range) const {
  if (!store_->is_local()) return {};
  const auto map = store_->map(key_of_value(range.offset / span_));
  if (map.empty()) return map;
  return map.subspan(static_cast<std::size_t>(range.offset % span_),
                     static_cast<std::size_t>(range.length));
}

template <typename Decode>
auto ChunkSource::with_key(std::int64_t chunk, const Decode& decode) const {
  try {
    return decode(io::ChunkOrigin{});
  } catch (const Error& error) {
    if (!error.path().empty()) throw;
    store_->require_unchanged();  // zeros of lost pages are no damage
    throw_error(error.kind(), store_->path(), "'{}': {}", key_of_chunk(chunk), error.what());
  }
}

void ChunkSource::decode(std::int64_t chunk, std::span<const std::byte> stored,
                         std::span<std::byte> out) const {
  with_key(chunk, [&](const io::ChunkOrigin& origin) {
    if (!array_.shards) store_->check(key_of_chunk(chunk), stored);
    array_.codecs.decode(stored, out, origin);
  });
}

std::vector<std::byte> ChunkSource::decode(std::int64_t chunk, std::span<const std::byte> stored,
                                           std::size_t max_bytes) const {
  if (array_.type.kind == TypeKind::kText)
    return with_key(chunk, [&](const io::ChunkOrigin& origin) {
      if (!array_.shards) store_->check(key_of_chunk(chunk), stored);
      return array_.codecs.decode_any(stored, max_bytes, origin);
    });
  auto n_bytes = static_cast<std::size_t>(array_.type.bytes);
  for (const std::int64_t extent : array_.inner_shape())
    n_bytes *= static_cast<std::size_t>(extent);
  if (!array_.codecs.can_expand(stored.size(), n_bytes))
    throw_error(ErrorKind::kCorruptData, path(),
                "damaged chunk: {} bytes in '{}' cannot be the {} of a chunk", stored.size(),
                key_of_chunk(chunk), n_bytes);
  std::vector<std::byte> elements(n_bytes);
  decode(chunk, stored, elements);
  return elements;
}

void ChunkSource::read(std::int64_t offset, std::span<std::byte> out) const {
  io::check_range(*this, offset, std::ssize(out));
  const std::int64_t value = offset / span_;
  const Source source = open(value);
  source->read(offset % span_, out);
  if (!source->is_unchanged()) throw_changed(key_of_value(value));
  if (store_->seen()) store_->look_again(key_of_value(value));
}

void ChunkSource::read_many(std::span<const io::ReadRequest> requests) const {
  if (const auto pending = begin_read_many(requests)) pending->wait();
}

std::unique_ptr<io::PendingReads> ChunkSource::begin_read_many(
    std::span<const io::ReadRequest> requests) const {
  io::check_requests(*this, requests);
  auto all = std::make_unique<ManyReads>(*store_);
  std::vector<io::ReadRequest> own;
  for (std::size_t at = 0; at < requests.size();) {
    const std::int64_t value = requests[at].offset / span_;
    own.clear();
    for (; at < requests.size() && requests[at].offset / span_ == value; ++at)
      own.push_back({requests[at].offset % span_, requests[at].out});
    all->add(store_->seen() ? key_of_value(value) : "", open(value), own);
  }
  return all;
}

io::ReadCosts ChunkSource::costs() const {
  io::ReadCosts costs;
  if (!is_local()) costs = {.gap_bytes = kGapBytes, .max_read_bytes = 8 << 20};
  return costs;
}

}  // namespace cellfeed::zarr
