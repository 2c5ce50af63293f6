#include "cellfeed/io/sequential_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::io {
namespace {

constexpr std::size_t kReadBytes = 256 << 10;
constexpr int kGzipWindow = 15 + 16;  // zlib's word for "gzip, any window"
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
// Looked at together by LineReader::take.
constexpr std::size_t kBlockBytes = 4 << 10;

struct LineEnds {
  std::int64_t n = 0;
  bool has_blank_after = false;  // a line that begins with a space, or with nothing
};

// Of text that another byte follows.
LineEnds count_ends(const char* text, std::size_t n) {
  std::uint32_t ends = 0, blanks = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t is_end = text[i] == '\n';
    ends += is_end;
    blanks += is_end & static_cast<std::uint32_t>(text[i + 1] <= ' ');
  }
  return {ends, blanks > 0};
}

}  // namespace

struct SequentialReader::Inflating {
  Inflating() : in(kReadBytes) {
    const int status = inflateInit2(&stream, kGzipWindow);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK) throw Error(ErrorKind::kInternal, "zlib cannot be used", {});
  }
  ~Inflating() { inflateEnd(&stream); }
  Inflating(const Inflating&) = delete;
  Inflating& operator=(const Inflating&) = delete;

  z_stream stream{};
  std::vector<std::byte> in;
  bool is_at_end = false;
};

SequentialReader::SequentialReader(std::shared_ptr<const ByteSource> source)
    : source_(std::move(source)) {
  if (is_gzip(*source_)) inflating_ = std::make_unique<Inflating>();
}

SequentialReader::~SequentialReader() = default;

std::size_t SequentialReader::read(std::span<std::byte> out) {
  std::size_t n = 0;
  while (n < out.size()) {
    const std::size_t got = inflating_ ? inflate(out.subspan(n)) : read_stored(out.subspan(n));
    if (got == 0) break;
    n += got;
  }
  return n;
}

std::size_t SequentialReader::read_stored(std::span<std::byte> out) {
  const std::int64_t n = std::min<std::int64_t>(std::ssize(out), source_->size() - offset_);
  source_->read(offset_, out.first(static_cast<std::size_t>(n)));
  offset_ += n;
  return static_cast<std::size_t>(n);
}

void SequentialReader::refill() {
  if (inflating_->stream.avail_in > 0) return;
  const std::size_t n = read_stored(inflating_->in);
  inflating_->stream.next_in = reinterpret_cast<Bytef*>(inflating_->in.data());
  inflating_->stream.avail_in = static_cast<uInt>(n);
}

bool SequentialReader::begin_next_stream() {
  z_stream& stream = inflating_->stream;
  for (refill(); stream.avail_in > 0; refill()) {
    if (*stream.next_in == 0) {  // what fills up blocks of some devices and archives
      ++stream.next_in;
      --stream.avail_in;
      continue;
    }
    if (*stream.next_in != 0x1f)
      throw_error(
          ErrorKind::kCorruptData, source_->path(),
          "bytes that are not gzip follow the gzip data, before offset {}; copy or download "
          "the file again",
          offset_);
    inflateReset(&stream);
    return true;
  }
  return false;
}

// Returns 0 at the end only.
std::size_t SequentialReader::inflate(std::span<std::byte> out) {
  z_stream& stream = inflating_->stream;
  const std::size_t wanted = std::min<std::size_t>(out.size(), 1 << 30);
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(wanted);
  while (stream.avail_out == wanted && !inflating_->is_at_end) {
    refill();
    const bool has_input = stream.avail_in > 0;
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      inflating_->is_at_end = !begin_next_stream();
    } else if (!has_input && status == Z_BUF_ERROR) {
      throw_error(ErrorKind::kCorruptData, source_->path(),
                  "truncated: the gzip data ends in its midst, at byte {}; copy or download the "
                  "file again",
                  offset_);
    } else if (status == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      throw_error(ErrorKind::kCorruptData, source_->path(),
                  "damaged gzip data before offset {}: {}; copy or download the file again",
                  offset_, stream.msg == nullptr ? "it needs a dictionary" : stream.msg);
    }
  }
  return wanted - stream.avail_out;
}

LineReader::LineReader(std::shared_ptr<const ByteSource> source, std::size_t max_line_bytes)
    : path_(source->path()), max_line_bytes_(max_line_bytes), reader_(std::move(source)) {
  buffer_.resize(std::max(kReadBytes, 2 * (max_line_bytes + 2)));
  fill();
  if (std::string_view(buffer_.data(), end_).starts_with(kByteOrderMark))
    begin_ = kByteOrderMark.size();
}

// Moves what is left to the front and reads on; false where nothing came.
bool LineReader::fill() {
  if (is_at_end_) return false;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const auto room = std::as_writable_bytes(std::span(buffer_)).subspan(end_);
  const std::size_t n = reader_.read(room);
  is_at_end_ = n < room.size();
  end_ += n;
  return n > 0;
}

std::optional<std::string_view> LineReader::next() {
  const auto find_end = [&] {
    return static_cast<const char*>(std::memchr(buffer_.data() + begin_, '\n', end_ - begin_));
  };
  const char* end = find_end();
  if (end == nullptr && end_ - begin_ <= max_line_bytes_ + 1 && fill()) end = find_end();
  if (end == nullptr && begin_ == end_) return std::nullopt;
  const char* begin = buffer_.data() + begin_;
  const bool is_ended = end != nullptr;
  if (!is_ended) end = buffer_.data() + end_;
  ++number_;
  std::string_view line(begin, static_cast<std::size_t>(end - begin));
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() > max_line_bytes_)
    throw_error(ErrorKind::kCorruptData, path_, "line {} has more than {} bytes", number_,
                max_line_bytes_);
  begin_ += static_cast<std::size_t>(end - begin) + (is_ended ? 1 : 0);
  return line;
}

std::int64_t LineReader::take(std::int64_t most, std::string& text) {
  const char* const begin = buffer_.data() + begin_;
  const char* const stop = buffer_.data() + end_;
  if (begin == stop || *begin <= ' ') return 0;
  std::int64_t n = 0;
  const char* taken = begin;  // behind the last line
  const auto find_end = [&] {
    return static_cast<const char*>(
        std::memchr(taken, '\n', static_cast<std::size_t>(stop - taken)));
  };
  // The last byte has none behind it that would say whether a line follows.
  for (const char* at = begin; at + 1 < stop && n < most;) {
    const auto size = std::min(kBlockBytes, static_cast<std::size_t>(stop - 1 - at));
    const LineEnds ends = count_ends(at, size);
    at += size;
    if (!ends.has_blank_after && n + ends.n <= most) {
      n += ends.n;
      if (ends.n > 0)
        taken =
            static_cast<const char*>(::memrchr(begin, '\n', static_cast<std::size_t>(at - begin))) +
            1;
      continue;
    }
    for (const char* end = find_end(); end != nullptr && end < at && n < most; end = find_end()) {
      taken = end + 1;
      ++n;
      if (*taken <= ' ') break;
    }
    break;
  }
  text.append(begin, taken);
  begin_ += static_cast<std::size_t>(taken - begin);
  number_ += n;
  return n;
}

bool is_gzip(const ByteSource& source) {
  if (source.size() < 2) return false;
  std::byte magic[2];
  source.read(0, magic);
  return magic[0] == std::byte{0x1f} && magic[1] == std::byte{0x8b};
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace cellfeed::io
