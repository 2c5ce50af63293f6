#include "cellfeed/format/tenx/mtx_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <mutex>

#include "cellfeed/base/error.h"
#include "cellfeed/io/stand_in.h"

namespace cellfeed::format::tenx {
namespace {

constexpr std::size_t kMaxHeaderLineBytes = 1 << 20;
constexpr std::int64_t kMaxHeaderLines = 10'000;
constexpr std::size_t kExcerptBytes = 60;
// The shortest entry, "1 1" and its end; and how much deflate can make of a byte.
constexpr std::int64_t kMinEntryBytes = 4;
constexpr std::int64_t kMaxInflation = 1032;
// Pieces that are kept for threads which ask a little later.
constexpr std::int64_t kMaxPassed = 64;

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : line) {
    if (c != ' ' && c != '\t') {
      word.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

MtxField field_of(const std::string& path, const std::vector<std::string>& banner) {
  if (banner.size() != 5 || banner[0] != "%%matrixmarket") {
    io::refuse_stand_in(fmt::format("{}", fmt::join(banner, " ")), path);
    throw_error(ErrorKind::kCorruptData, path,
                "no Matrix Market file: the first line must be '%%MatrixMarket matrix coordinate "
                "integer general' or the like, and is '{}'",
                excerpt(fmt::format("{}", fmt::join(banner, " "))));
  }
  if (banner[1] != "matrix" || banner[2] != "coordinate")
    throw_error(ErrorKind::kUnsupported, path,
                "only matrices in coordinate form are read: this is '{} {}'; write it with "
                "scipy.io.mmwrite of a sparse matrix",
                excerpt(banner[1]), excerpt(banner[2]));
  if (banner[4] != "general")
    throw_error(ErrorKind::kUnsupported, path,
                "only 'general' matrices are read, of which every entry is stored: this is '{}'",
                excerpt(banner[4]));
  if (banner[3] == "integer" || banner[3] == "unsigned-integer") return MtxField::kInteger;
  if (banner[3] == "real" || banner[3] == "double") return MtxField::kReal;
  if (banner[3] == "pattern") return MtxField::kPattern;
  throw_error(ErrorKind::kUnsupported, path,
              "only values of type integer, real and pattern are read: this is '{}'",
              excerpt(banner[3]));
}

bool parse_count(const std::string& word, std::int64_t& count) {
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, count);
  return error == std::errc() && stop == end && count >= 0;
}

}  // namespace

std::string excerpt(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kExcerptBytes))
    shown.push_back(c >= ' ' && c <= '~' ? c : c == '\t' ? ' ' : '?');
  return text.size() > kExcerptBytes ? shown + "..." : shown;
}

std::int64_t MtxLines::number_of(std::int64_t line) const {
  const auto after =
      std::upper_bound(numbers.begin(), numbers.end(), line,
                       [](std::int64_t wanted, const auto& known) { return wanted < known.first; });
  const auto& [from, number] = *std::prev(after);
  return number + (line - from);
}

void require_numbers(const std::string& path, std::int64_t n_features, std::int64_t n_cells) {
  if (n_features > std::numeric_limits<std::int32_t>::max() ||
      n_cells > std::numeric_limits<std::uint32_t>::max())
    throw_error(ErrorKind::kUnsupported, path,
                "more than 2^31-1 features or 2^32-1 cells are not readable: {} and {}", n_features,
                n_cells);
}

void require_short_line(const std::string& path, std::string_view line, std::int64_t number) {
  if (std::ssize(line) > MtxText::kMaxEntryBytes)
    throw_error(ErrorKind::kCorruptData, path, "line {} is too long for an entry: '{}'", number,
                excerpt(line));
}

namespace {

void require_short_lines(const std::string& path, const MtxLines& lines) {
  std::string_view rest = lines.text;
  for (std::int64_t i = 0; i < lines.n; ++i) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    require_short_line(path, line, lines.number_of(i));
    rest.remove_prefix(line.size() + 1);
  }
}

}  // namespace

MtxText::MtxText(std::shared_ptr<const io::ByteSource> source) : source_(std::move(source)) {
  if (source_->size() == 0)
    throw_error(ErrorKind::kCorruptData, path(), "the file is empty; copy or download it again");
  io::LineReader lines(source_, kMaxHeaderLineBytes);
  read_header(lines);
  require_room();
  if (header_.n_entries == 0) require_end(lines);
}

void MtxText::read_header(io::LineReader& lines) {
  const auto banner = lines.next();
  header_.field = field_of(path(), words_of(banner.value_or("")));
  auto line = lines.next();
  while (line && (line->starts_with('%') || io::is_blank(*line))) {
    if (lines.number() > kMaxHeaderLines)
      throw_error(ErrorKind::kCorruptData, path(), "more than {} lines of comments",
                  kMaxHeaderLines);
    line = lines.next();
  }
  const std::vector<std::string> words = words_of(line.value_or(""));
  if (words.size() != 3 || !parse_count(words[0], header_.n_rows) ||
      !parse_count(words[1], header_.n_cols) || !parse_count(words[2], header_.n_entries))
    throw_error(ErrorKind::kCorruptData, path(),
                "line {} must say the numbers of rows, columns and entries, and is '{}'",
                lines.number(), excerpt(line.value_or("")));
  header_.n_lines = lines.number();
  // Whichever axis has the cells.
  require_numbers(path(), std::min(header_.n_rows, header_.n_cols),
                  std::max(header_.n_rows, header_.n_cols));
}

// A number of entries that cannot be is told at once, not after hours.
void MtxText::require_room() const {
  const std::int64_t most =
      source_->size() / kMinEntryBytes * (io::is_gzip(*source_) ? kMaxInflation : 1);
  if (header_.n_entries > most + kMaxInflation)
    throw_error(ErrorKind::kCorruptData, path(),
                "truncated: the header says {} entries, which a file of {} bytes cannot hold; copy "
                "or download it again",
                header_.n_entries, source_->size());
}

MtxLines MtxText::lines(std::int64_t piece) const {
  const std::lock_guard lock(mutex_);
  if (auto known = passed_.extract(piece)) return std::move(known.mapped());
  try {
    if (!source_->is_unchanged())
      throw_error(ErrorKind::kCorruptData, path(),
                  "the file was written to since it was opened; open it again once it is whole");
    if (!reader_ || piece < next_) begin();
    for (;;) {
      MtxLines read = read_piece();
      ++next_;
      if (next_ == n_pieces()) reader_.reset();
      if (next_ > piece) return read;
      if (piece - next_ < kMaxPassed) passed_.insert_or_assign(next_ - 1, std::move(read));
    }
  } catch (...) {
    reader_.reset();
    passed_.clear();
    throw;
  }
}

void MtxText::begin() const {
  passed_.clear();
  next_ = 0;
  reader_.emplace(source_, kMaxHeaderLineBytes);
  while (reader_->number() < header_.n_lines && reader_->next()) {
  }
}

MtxLines MtxText::read_piece() const {
  MtxLines piece;
  piece.text.reserve(text_bytes_);
  const std::int64_t first = next_ * kPieceLines;
  const std::int64_t wanted = std::min(kPieceLines, header_.n_entries - first);
  std::int64_t expected = -1;  // number of the next line, unless blank ones lie between
  const auto note_number = [&](std::int64_t number, std::int64_t n) {
    if (number != expected) piece.numbers.emplace_back(piece.n, number);
    expected = number + n;
    piece.n += n;
  };
  while (piece.n < wanted) {
    if (const std::int64_t n = reader_->take(wanted - piece.n, piece.text); n > 0) {
      note_number(reader_->number() - n + 1, n);
      if (std::ssize(piece.text) > wanted * kMaxEntryBytes) require_short_lines(path(), piece);
      continue;
    }
    const auto line = reader_->next();
    if (!line)
      throw_error(ErrorKind::kCorruptData, path(),
                  "truncated: the header says {} entries, and the file ends after {}, at line {}; "
                  "copy or download it again",
                  header_.n_entries, first + piece.n, reader_->number());
    if (io::is_blank(*line)) continue;
    require_short_line(path(), *line, reader_->number());
    note_number(reader_->number(), 1);
    piece.text.append(*line).push_back('\n');
  }
  if (first + wanted == header_.n_entries) require_end(*reader_);
  text_bytes_ = std::max(text_bytes_, piece.text.size());
  return piece;
}

void MtxText::require_end(io::LineReader& lines) const {
  while (const auto line = lines.next())
    if (!io::is_blank(*line))
      throw_error(ErrorKind::kCorruptData, path(),
                  "the header says {} entries, and more follow, in line {}: '{}'",
                  header_.n_entries, lines.number(), excerpt(*line));
}

}  // namespace cellfeed::format::tenx
