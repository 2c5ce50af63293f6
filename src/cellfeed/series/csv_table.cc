// Tables of text: one header line, then one row a line.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cellfeed/base/ascii_case.h"
#include "cellfeed/base/csv_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/sequential_reader.h"
#include "cellfeed/series/table.h"

namespace cellfeed::series {
namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;
// Rows by which a column without a declared type is told to hold numbers.
constexpr std::int64_t kRowsLookedAt = 1000;
constexpr std::size_t kLookedAtBytes = std::size_t{64} << 10;

char delimiter_of(std::string_view written) {
  const std::string path = lower(written);
  return path.ends_with(".tsv") || path.ends_with(".tsv.gz") ? '\t' : ',';
}

// Some of the bytes of a source.
class SourceRange final : public io::ByteSource {
 public:
  SourceRange(std::shared_ptr<const io::ByteSource> source, std::int64_t begin, std::int64_t end)
      : source_(std::move(source)), begin_(begin), end_(end) {}
  const std::string& path() const override { return source_->path(); }
  std::int64_t size() const override { return end_ - begin_; }
  std::string_view backend_name() const override { return source_->backend_name(); }
  void read(std::int64_t offset, std::span<std::byte> out) const override {
    io::check_range(*this, offset, std::ssize(out));
    source_->read(begin_ + offset, out);
  }

 private:
  const std::shared_ptr<const io::ByteSource> source_;
  const std::int64_t begin_, end_;
};

class CsvTable : public Table {
 public:
  CsvTable(const std::string& path, TextNumbers numbers, TableShare share)
      : Table(path, io::open_file(path, {.access = io::FileAccess::kPread, .threads = 1})),
        delimiter_(delimiter_of(path)),
        numbers_(std::move(numbers)) {
    rewind();
    if (columns_.empty()) return;
    look_at_rows();
    if (share.n > 1)
      begin_share(share);
    else
      rewind();
  }

  void choose(std::span<const int> columns) override {
    chosen_.assign(columns.begin(), columns.end());
    slots_.assign(columns_.size(), -1);
    for (std::size_t i = 0; i < chosen_.size(); ++i)
      slots_[static_cast<std::size_t>(chosen_[i])] = static_cast<int>(i);
  }

  std::int64_t next(std::int64_t max_rows) override {
    text_.clear();
    ends_.clear();
    lines_.clear();
    while (static_cast<std::int64_t>(lines_.size()) < max_rows && next_line()) {
      lines_.push_back(reader_->number());
      for (const int c : chosen_) {
        text_ += split_.fields()[static_cast<std::size_t>(c)];
        ends_.push_back(text_.size());
      }
    }
    return static_cast<std::int64_t>(lines_.size());
  }

  std::string place(std::int64_t row) const override {
    return fmt::format("line {}", line_number(lines_[static_cast<std::size_t>(row)]));
  }

  void numbers(int column, double* out, std::int64_t stride) const override {
    const bool is_flag = holds_flags_[static_cast<std::size_t>(column)];
    for (std::int64_t i = 0; i < n_rows(); ++i) {
      const std::string_view text = field(i, column);
      if (is_missing(text)) {
        out[i * stride] = NAN;
        continue;
      }
      if (is_flag) {
        out[i * stride] = flag_of(text, i, column);
        continue;
      }
      const auto value = parse_number(text, numbers_);
      if (!value)
        throw_value(i, column,
                    fmt::format("is no number: '{}'; na_values names texts that stand for missing "
                                "values",
                                text.substr(0, 80)));
      if (std::isinf(*value)) throw_value(i, column, "is infinite");
      out[i * stride] = *value;
    }
  }

  void flags(int column, double* out, std::int64_t stride) const override {
    for (std::int64_t i = 0; i < n_rows(); ++i) {
      const std::string_view text = field(i, column);
      if (const auto flag = parse_flag(text)) {
        out[i * stride] = *flag ? 1 : 0;
        continue;
      }
      const auto value = is_missing(text) ? NAN : parse_number(text, numbers_);
      if (!value)
        throw_value(i, column, fmt::format("is not true or false: '{}'", text.substr(0, 80)));
      out[i * stride] = *value;
    }
  }

  std::optional<TimeKind> times(int column, std::optional<std::int64_t> unit,
                                std::span<std::int64_t> out) const override {
    std::optional<TimeKind> kind;
    for (std::int64_t i = 0; i < n_rows(); ++i) {
      const std::string_view text = field(i, column);
      std::int64_t& time = out[static_cast<std::size_t>(i)];
      time = kNoTime;
      if (is_missing(text)) continue;
      const TimeKind found = parse(text, unit, i, column, time);
      if (kind && *kind != found)
        throw_value(i, column,
                    "is a time unlike those before it: with and without a zone, or "
                    "numbers and dates, do not mix");
      kind = found;
    }
    return kind;
  }

  void integers(int column, std::span<std::int64_t> out) const override {
    for (std::int64_t i = 0; i < n_rows(); ++i) {
      const std::string_view text = field(i, column);
      out[static_cast<std::size_t>(i)] = kNoTime;
      if (is_missing(text)) continue;
      const auto value = parse_integer(text);
      if (!value)
        throw_value(i, column, fmt::format("is no whole number: '{}'", text.substr(0, 80)));
      out[static_cast<std::size_t>(i)] = *value;
    }
  }

  void texts(int column, std::vector<std::string_view>& out) override {
    out.clear();
    for (std::int64_t i = 0; i < n_rows(); ++i) {
      const std::string_view text = field(i, column);
      out.push_back(text.empty() ? std::string_view() : text);
    }
  }

 private:
  std::int64_t n_rows() const { return static_cast<std::int64_t>(lines_.size()); }
  bool is_missing(std::string_view text) const { return is_missing_text(text, numbers_); }

  void rewind() {
    reader_ = std::make_unique<io::LineReader>(source_, kMaxLineBytes);
    const auto header = reader_->next();
    if (!header || io::is_blank(*header))
      throw Error(ErrorKind::kCorruptData, "is empty: a line of column names was expected", path_);
    if (header->find('\r') != std::string_view::npos)
      throw Error(ErrorKind::kCorruptData,
                  "line 1 has carriage returns within it: end lines by LF or CRLF", path_);
    if (const std::string_view wrong = split_.split(*header, delimiter_); !wrong.empty())
      throw_error(ErrorKind::kCorruptData, path_, "line 1: {}", wrong);
    if (!columns_.empty()) return;
    for (const std::string_view name : split_.fields()) add_column({std::string(name)});
  }

  // "1,5", "1,234.5"; not what numbers_ reads anyway.
  static bool is_number_with_commas(std::string_view field) {
    return field.find(',') != std::string_view::npos &&
           (parse_number(field, {.decimal = ","}) || parse_number(field, {.thousands = ","}));
  }

  // What columns hold, by the first rows.
  void look_at_rows() {
    struct Look {
      std::int64_t n_values = 0, n_numbers = 0, n_flags = 0, n_with_commas = 0;
      std::string first_text;  // and its line
    };
    std::vector<Look> looks(columns_.size());
    for (std::int64_t n = 0; n < kRowsLookedAt && next_line(); ++n)
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const std::string_view field = split_.fields()[c];
        if (is_missing(field)) continue;
        Look& look = looks[c];
        ++look.n_values;
        if (parse_flag(field)) ++look.n_flags;
        if (is_number_with_commas(field)) ++look.n_with_commas;
        if (parse_number(field, numbers_))
          ++look.n_numbers;
        else if (look.first_text.empty())
          look.first_text = fmt::format("line {} has '{}'", reader_->number(), field.substr(0, 80));
      }
    holds_flags_.resize(columns_.size());
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const Look& look = looks[c];
      columns_[c].is_numeric = columns_[c].has_digits = look.n_numbers == look.n_values;
      holds_flags_[c] = look.n_flags > 0 && look.n_flags == look.n_values;
      if (!columns_[c].is_numeric && 2 * look.n_numbers > look.n_values)
        columns_[c].doubt = fmt::format("{} where {} of the first {} values are numbers",
                                        look.first_text, look.n_numbers, look.n_values);
      if (!columns_[c].is_numeric && 2 * look.n_with_commas > look.n_values)
        columns_[c].doubt =
            fmt::format("{}, which is a number by decimal or thousands alone", look.first_text);
    }
  }

  // Numbers do not mix with these: who wrote both meant something else.
  double flag_of(std::string_view text, std::int64_t row, int column) const {
    const auto flag = parse_flag(text);
    if (!flag)
      throw_value(row, column,
                  fmt::format("is neither true nor false, as the column is before it: '{}'",
                              text.substr(0, 80)));
    return *flag ? 1 : 0;
  }

  // Of the first row of a table of one column: it may be of several.
  void look_for_separators(std::string_view row) {
    has_looked_ = true;
    if (columns_.size() > 1) return;
    if (const std::string what = why_one_column(columns_[0].name, row, delimiter_); !what.empty())
      throw Error(ErrorKind::kCorruptData, what, path_);
  }

  // The next line that is not blank, in split_.
  bool next_line() {
    for (;;) {
      const auto line = reader_->next();
      if (!line) return false;
      if (line->empty() && columns_.size() > 1) continue;
      if (!has_looked_) look_for_separators(*line);
      if (const std::string_view wrong = split_.split(*line, delimiter_); !wrong.empty())
        throw_error(ErrorKind::kCorruptData, path_, "line {}: {}", line_number(reader_->number()),
                    wrong);
      if (split_.fields().size() != columns_.size())
        throw_error(ErrorKind::kCorruptData, path_,
                    "line {} has {} fields where the header has {}: the file is damaged or was cut "
                    "off; restore it",
                    line_number(reader_->number()), split_.fields().size(), columns_.size());
      return true;
    }
  }

  // The lines that begin in the share's bytes; the first of all has the header too.
  void begin_share(TableShare share) {
    const std::int64_t size = source_->size();
    begin_ = line_at(share.k * (size / share.n));
    const std::int64_t end =
        share.k + 1 == share.n ? size : line_at((share.k + 1) * (size / share.n));
    auto lines = std::make_shared<SourceRange>(source_, begin_, std::max(begin_, end));
    reader_ = std::make_unique<io::LineReader>(std::move(lines), kMaxLineBytes);
    if (share.k == 0) (void)reader_->next();
  }

  // Where the first line begins at this place or after it.
  std::int64_t line_at(std::int64_t place) const {
    if (place == 0) return 0;
    std::vector<char> bytes(kLookedAtBytes);
    for (std::int64_t at = place - 1; at < source_->size();) {
      const std::size_t n = read_some(at, bytes);
      if (const auto* found = static_cast<const char*>(std::memchr(bytes.data(), '\n', n)))
        return at + (found - bytes.data()) + 1;
      at += static_cast<std::int64_t>(n);
    }
    return source_->size();
  }

  std::size_t read_some(std::int64_t at, std::vector<char>& bytes) const {
    const auto n = std::min(bytes.size(), static_cast<std::size_t>(source_->size() - at));
    source_->read(at, std::as_writable_bytes(std::span(bytes).first(n)));
    return n;
  }

  // In the file, of one in the share; counted when it is asked for.
  std::int64_t line_number(std::int64_t in_share) const {
    std::vector<char> bytes(kLookedAtBytes);
    for (std::int64_t at = 0; at < begin_;) {
      const auto n = std::min<std::int64_t>(std::ssize(bytes), begin_ - at);
      source_->read(at,
                    std::as_writable_bytes(std::span(bytes).first(static_cast<std::size_t>(n))));
      in_share += std::count(bytes.begin(), bytes.begin() + n, '\n');
      at += n;
    }
    return in_share;
  }

  std::string_view field(std::int64_t row, int column) const {
    const auto i = static_cast<std::size_t>(row) * chosen_.size() +
                   static_cast<std::size_t>(slots_[static_cast<std::size_t>(column)]);
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }

  TimeKind parse(std::string_view text, std::optional<std::int64_t> unit, std::int64_t row,
                 int column, std::int64_t& time) const {
    if (const auto number = parse_integer(text)) {
      const auto scaled = scaled_time(*number, unit.value_or(1));
      if (!scaled) throw_value(row, column, fmt::format("is out of range: '{}'", text));
      time = *scaled;
      return unit ? TimeKind::kNaive : TimeKind::kInteger;
    }
    if (unit)
      throw_value(row, column,
                  fmt::format("is no whole number, of which time_unit is the unit: '{}'; write "
                              "times as such, or leave it out where they are dates",
                              text.substr(0, 80)));
    const auto parsed = parse_time(text);
    if (!parsed) throw_value(row, column, fmt::format("{}: '{}'", kNoSuchTime, text.substr(0, 80)));
    time = parsed->ns;
    return parsed->has_zone ? TimeKind::kZoned : TimeKind::kNaive;
  }

  const char delimiter_;
  const TextNumbers numbers_;
  bool has_looked_ = false;  // for other separators
  std::int64_t begin_ = 0;   // of the share
  std::unique_ptr<io::LineReader> reader_;
  CsvFields split_;
  std::vector<bool> holds_flags_;  // of each column: its first rows are true or false
  std::vector<int> chosen_;
  std::vector<int> slots_;  // of each column, among those chosen
  // The current rows: the texts of chosen columns, row by row.
  std::string text_;
  std::vector<std::size_t> ends_;
  std::vector<std::int64_t> lines_;
};

}  // namespace

std::unique_ptr<Table> open_csv_table(const std::string& path, const TextNumbers& numbers,
                                      TableShare share) {
  return std::make_unique<CsvTable>(path, numbers, share);
}

}  // namespace cellfeed::series
