#include "cellfeed/series/spilled_rows.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/system_call.h"

namespace cellfeed::series {
namespace {

constexpr std::uint64_t kMagic = 0x32304C4C49505343;  // "CSPILL02"
// Turned to numbers at a time where they were kept as float32.
constexpr std::size_t kSpilledTogether = 4096;
constexpr std::int64_t kTrailerBytes = 24;  // offset of the footer, checksum, magic

template <typename T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_statics(std::string& out, const StaticTable& statics, std::size_t n_entities) {
  for (std::size_t e = 0; e < n_entities; ++e)
    for (std::size_t c = 0; c < statics.n_cols(); ++c) {
      const StaticValue& value = statics.value(static_cast<std::int64_t>(e), c);
      put(out, static_cast<std::uint8_t>(value.index()));
      if (const auto* number = std::get_if<double>(&value)) put(out, *number);
      if (const auto* text = std::get_if<std::string>(&value)) {
        put(out, static_cast<std::uint64_t>(text->size()));
        out += *text;
      }
    }
}

// Numbers of a footer whose checksum was right.
class Footer {
 public:
  explicit Footer(std::span<const char> bytes) : bytes_(bytes) {}
  template <typename T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string text() {
    const auto n = get<std::uint64_t>();
    return {take(n), n};
  }
  StaticValue static_value() {
    const auto kind = get<std::uint8_t>();
    if (kind == 1) return get<double>();
    if (kind == 2) return text();
    return {};
  }
  const char* take(std::size_t n) {
    if (n > bytes_.size() - at_) throw Error(ErrorKind::kInternal, "a spilled part has no end");
    at_ += n;
    return bytes_.data() + at_ - n;
  }

 private:
  std::span<const char> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

struct SpillWriter::Names {
  std::unordered_map<std::string, std::uint32_t> numbers;
  format::shard::RunningChecksum checksum;  // of all that is written
};

SpillWriter::SpillWriter(io::FileTarget target, const RowColumns& columns,
                         std::function<bool(std::int64_t)> take_memory)
    : target_(std::move(target)),
      path_(target_.path()),
      take_memory_(std::move(take_memory)),
      n_values_(columns.n_values()),
      names_(std::make_unique<Names>()),
      sorted_(n_values_) {
  part_.statics = StaticTable(columns.static_columns);
}

// What a build that was stopped left under the name is not written to, whatever it is.
void SpillWriter::open_file() {
  target_.directory().remove(target_.name());
  fd_ = io::retry_interrupted([&] {
    return ::openat(target_.directory().fd(), target_.name().c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  });
  if (fd_ < 0) throw_errno(errno, path_, "make this file");
  for (const Records& records : part_.kept) append_records(records);
  part_.kept.clear();
}

SpillWriter::~SpillWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void SpillWriter::write(std::span<const std::byte> bytes) {
  if (!io::write_whole(fd_, bytes, size_))
    throw_errno(errno, path_, fmt::format("write {} bytes", bytes.size()));
}

void SpillWriter::append(std::span<const std::byte> bytes) {
  names_->checksum.add(bytes);
  write(bytes);
}

std::int64_t SpillWriter::add_runs(const RowBlock& block) {
  // Those in memory are in one piece.
  bool is_first = fd_ < 0;
  const std::size_t n_before = part_.runs.size();
  for (const std::uint32_t i : order_) {
    const std::uint32_t entity = numbers_[block.entities[i]];
    if (is_first || part_.runs.empty() || part_.runs.back().entity != entity ||
        part_.runs.back().n_rows == std::numeric_limits<std::uint32_t>::max())
      part_.runs.push_back({entity, 0});
    ++part_.runs.back().n_rows;
    is_first = false;
  }
  return static_cast<std::int64_t>(part_.runs.size() - n_before);
}

void SpillWriter::append_records(const Records& records) {
  if (!records.is_narrow())
    return append({records.rows().data, records.n_rows() * records.row_bytes()});
  std::vector<double> wide(std::min(records.n_rows(), kSpilledTogether) * (n_values_ + 1));
  for (std::size_t at = 0; at < records.n_rows(); at += kSpilledTogether) {
    const std::size_t n = std::min(kSpilledTogether, records.n_rows() - at);
    records.rows()
        .from(static_cast<std::int64_t>(at))
        .copy(static_cast<std::int64_t>(n), n_values_, wide.data());
    append(std::as_bytes(std::span(wide).first(n * (n_values_ + 1))));
  }
}

void SpillWriter::keep(Records& records) {
  if (records.n_rows() == 0) return;
  if (fd_ < 0) {
    Records kept = records.take();
    if (take_memory_(kept.bytes())) {
      part_.kept.push_back(std::move(kept));
      return;
    }
    open_file();
    append_records(kept);
  } else {
    append_records(records);
  }
}

std::int64_t SpillWriter::add(RowBlock& block, std::span<const std::string> names) {
  for (std::size_t i = numbers_.size(); i < names.size(); ++i) {
    const auto [at, is_new] =
        names_->numbers.try_emplace(names[i], static_cast<std::uint32_t>(part_.entities.size()));
    if (is_new) part_.entities.push_back(names[i]);
    numbers_.push_back(at->second);
  }
  order_.resize(block.entities.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::int64_t n_runs = 0;
  if (std::ranges::is_sorted(block.entities)) {
    n_runs = add_runs(block);
    keep(block.records);
  } else {
    std::ranges::stable_sort(order_, {}, [&](std::uint32_t i) { return block.entities[i]; });
    const std::size_t n_bytes = block.records.row_bytes();
    sorted_.clear();
    if (!block.records.is_narrow()) sorted_.widen();
    std::byte* out = sorted_.extend(order_.size());
    for (const std::uint32_t i : order_) {
      std::memcpy(out, block.records.row(i), n_bytes);
      out += n_bytes;
    }
    n_runs = add_runs(block);
    keep(sorted_);
  }
  block.clear();
  return n_runs;
}

void SpillWriter::end_file(const RowSource& source) {
  part_.statics.resize(std::ssize(part_.entities));
  for (std::size_t e = 0; e < numbers_.size() && part_.statics.n_cols() > 0; ++e)
    if (const auto column =
            part_.statics.merge(numbers_[e], source.statics(), static_cast<std::int64_t>(e)))
      throw_not_static(source.path(), "", source.entities()[e], part_.statics.names()[*column],
                       part_.statics.value(numbers_[e], *column),
                       source.statics().value(static_cast<std::int64_t>(e), *column));
  numbers_.clear();
  part_.n_read += source.n_read();
  part_.n_dropped += source.n_dropped();
  const auto kind = source.time_kind();
  if (kind && part_.kind && *kind != *part_.kind)
    throw_error(ErrorKind::kCorruptData, source.path(),
                "its times are {} where those of the files before it are {}", time_kind_name(*kind),
                time_kind_name(*part_.kind));
  if (kind) part_.kind = kind;
}

void SpillWriter::append_footer() {
  std::string footer;
  put(footer, part_.kind ? static_cast<std::int64_t>(*part_.kind) : std::int64_t{-1});
  put(footer, part_.n_read);
  put(footer, part_.n_dropped);
  put(footer, static_cast<std::uint64_t>(part_.entities.size()));
  for (const std::string& name : part_.entities) {
    put(footer, static_cast<std::uint64_t>(name.size()));
    footer += name;
  }
  put_statics(footer, part_.statics, part_.entities.size());
  put(footer, static_cast<std::uint64_t>(part_.runs.size()));
  footer.append(reinterpret_cast<const char*>(part_.runs.data()), part_.runs.size() * sizeof(Run));
  append(std::as_bytes(std::span(footer)));
}

SpilledPart SpillWriter::commit() {
  if (fd_ < 0) return std::move(part_);
  const std::int64_t footer_offset = size_;
  append_footer();
  std::string trailer;
  put(trailer, footer_offset);
  put(trailer, names_->checksum.value());
  put(trailer, kMagic);
  write(std::as_bytes(std::span(trailer)));
  if (::close(std::exchange(fd_, -1)) != 0) throw_errno(errno, path_, "close");
  return std::move(part_);
}

std::optional<SpilledPart> read_spilled_part(const std::string& path, const RowColumns& columns) {
  if (!io::exists(path)) return std::nullopt;
  const auto file = io::open_file(path, {.access = io::FileAccess::kPread, .threads = 1});
  const std::int64_t end = file->size() - kTrailerBytes;
  if (end < 0) return std::nullopt;
  std::uint64_t trailer[3];
  file->read(end, std::as_writable_bytes(std::span(trailer)));
  const auto footer_offset = static_cast<std::int64_t>(trailer[0]);
  if (trailer[2] != kMagic || footer_offset < 0 || footer_offset > end ||
      footer_offset % record_bytes(columns.n_values()) != 0)
    return std::nullopt;
  format::shard::RunningChecksum checksum;
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < end;) {
    const auto n = std::min<std::int64_t>(end - at, static_cast<std::int64_t>(buffer.size()));
    const auto part = std::span(buffer).first(static_cast<std::size_t>(n));
    file->read(at, part);
    checksum.add(part);
    at += n;
  }
  if (checksum.value() != trailer[1]) return std::nullopt;
  std::vector<char> bytes(static_cast<std::size_t>(end - footer_offset));
  file->read(footer_offset, std::as_writable_bytes(std::span(bytes)));
  Footer footer(bytes);
  SpilledPart part;
  if (const auto kind = footer.get<std::int64_t>(); kind >= 0)
    part.kind = static_cast<TimeKind>(kind);
  part.n_read = footer.get<std::int64_t>();
  part.n_dropped = footer.get<std::int64_t>();
  for (auto n = footer.get<std::uint64_t>(); n > 0; --n) part.entities.push_back(footer.text());
  part.statics = StaticTable(columns.static_columns);
  part.statics.resize(std::ssize(part.entities));
  for (std::int64_t e = 0; e < std::ssize(part.entities); ++e)
    for (std::size_t c = 0; c < part.statics.n_cols(); ++c)
      part.statics.see(e, c, footer.static_value());
  for (auto n = footer.get<std::uint64_t>(); n > 0; --n) part.runs.push_back(footer.get<Run>());
  return part;
}

SpilledRows::SpilledRows(std::vector<SpilledPart> parts, const std::vector<std::string>& paths,
                         const RowColumns& columns)
    : n_values_(columns.n_values()), statics_(columns.static_columns) {
  std::unordered_map<std::string, std::uint32_t> numbers;
  std::vector<std::vector<std::uint32_t>> of_part(parts.size());
  std::vector<std::size_t> n_pieces;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (const std::string& name : parts[p].entities) {
      const auto [at, is_new] =
          numbers.try_emplace(name, static_cast<std::uint32_t>(entities_.size()));
      if (is_new) entities_.push_back(name);
      of_part[p].push_back(at->second);
    }
    add_statics(parts[p], of_part[p]);
    n_pieces.resize(entities_.size());
    for (const Run& run : parts[p].runs) ++n_pieces[of_part[p][run.entity]];
    const bool is_file = parts[p].kept.empty() && !parts[p].runs.empty();
    files_.push_back(is_file
                         ? io::open_file(paths[p], {.access = io::FileAccess::kPread, .threads = 1})
                         : nullptr);
    kept_.push_back(std::move(parts[p].kept));
  }
  first_piece_.resize(entities_.size() + 1);
  std::inclusive_scan(n_pieces.begin(), n_pieces.end(), first_piece_.begin() + 1);
  pieces_.resize(first_piece_.back());
  std::vector<std::size_t> at(first_piece_.begin(), first_piece_.end() - 1);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::int64_t record = 0;
    std::size_t chunk = 0, place = 0;  // where memory has the run
    for (const Run& run : parts[p].runs) {
      RecordRows kept;
      if (!kept_[p].empty()) {
        while (place == kept_[p][chunk].n_rows()) ++chunk, place = 0;
        kept = kept_[p][chunk].rows().from(static_cast<std::int64_t>(place));
        place += run.n_rows;
      }
      pieces_[at[of_part[p][run.entity]]++] = {static_cast<std::int32_t>(p), record, run.n_rows,
                                               kept};
      record += run.n_rows;
    }
    parts[p] = {};
  }
}

void SpilledRows::add_statics(const SpilledPart& part, std::span<const std::uint32_t> numbers) {
  if (statics_.n_cols() == 0) return;
  statics_.resize(std::ssize(entities_));
  for (std::size_t e = 0; e < numbers.size(); ++e)
    if (const auto column = statics_.merge(numbers[e], part.statics, static_cast<std::int64_t>(e)))
      throw_not_static("", "", part.entities[e], statics_.names()[*column],
                       statics_.value(numbers[e], *column),
                       part.statics.value(static_cast<std::int64_t>(e), *column));
}

std::span<const SpilledRows::Piece> SpilledRows::pieces(std::int64_t entity) const {
  const auto e = static_cast<std::size_t>(entity);
  return std::span(pieces_).subspan(first_piece_[e], first_piece_[e + 1] - first_piece_[e]);
}

std::int64_t SpilledRows::n_rows(std::int64_t entity) const {
  std::int64_t n = 0;
  for (const Piece& piece : pieces(entity)) n += piece.n_rows;
  return n;
}

void SpilledRows::read(const Piece& piece, std::int64_t first, std::int64_t n, double* out) const {
  const std::int64_t width = record_bytes(n_values_);
  if (piece.kept.data != nullptr) return piece.kept.from(first).copy(n, n_values_, out);
  files_[static_cast<std::size_t>(piece.part)]->read(
      (piece.first_record + first) * width,
      {reinterpret_cast<std::byte*>(out), static_cast<std::size_t>(n * width)});
}

}  // namespace cellfeed::series
