// Data Storage - Filter Pipeline message, versions 1 and 2.
#include "cellfeed/hdf5/filter_pipeline_message.h"

#include <algorithm>

namespace cellfeed::hdf5 {
namespace {

constexpr int kMaxFilters = 32;
constexpr std::uint16_t kFirstNamedFilter = 256;  // version 2 leaves out the names of those below
constexpr std::uint16_t kOptionalFlag = 0x0001;

std::string read_filter_name(Cursor& message, std::uint16_t n_bytes) {
  const Bytes stored = message.bytes(n_bytes);
  const auto view = stored.view();
  const auto end = std::find(view.begin(), view.end(), std::byte{0});
  return {reinterpret_cast<const char*>(view.data()), static_cast<std::size_t>(end - view.begin())};
}

FilterDescription read_filter(Cursor& message, int version) {
  FilterDescription filter;
  filter.id = message.u16();
  const bool has_name = version == 1 || filter.id >= kFirstNamedFilter;
  std::uint16_t name_bytes = has_name ? message.u16() : std::uint16_t{0};
  filter.is_optional = (message.u16() & kOptionalFlag) != 0;
  const std::uint16_t n_values = message.u16();
  if (version == 1) name_bytes = static_cast<std::uint16_t>((name_bytes + 7) / 8 * 8);
  filter.name = read_filter_name(message, name_bytes);
  if (n_values > message.remaining() / 4) message.fail("{} client values", n_values);
  for (int i = 0; i < n_values; ++i) filter.client_values.push_back(message.u32());
  if (version == 1 && n_values % 2 == 1) message.skip(4);
  return filter;
}

}  // namespace

std::vector<FilterDescription> read_filter_pipeline_message(Cursor message) {
  const int version = message.u8();
  if (version != 1 && version != 2) message.fail("version {} is not known", version);
  const int n_filters = message.u8();
  if (n_filters > kMaxFilters)
    message.fail("{} filters, at most {} are legal", n_filters, kMaxFilters);
  if (version == 1) message.skip(6);
  std::vector<FilterDescription> filters;
  for (int i = 0; i < n_filters; ++i) filters.push_back(read_filter(message, version));
  return filters;
}

}  // namespace cellfeed::hdf5
