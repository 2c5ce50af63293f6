#include "cellfeed/cloud/cache/folder_listing.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "cellfeed/base/error.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::cloud {
namespace {

constexpr std::string_view kPrefix = ".listing-";
constexpr int kListingVersion = 1;
constexpr std::int64_t kMostOfListing = std::int64_t{1} << 32;

}  // namespace

void write_listing(const io::Directory& directory, const FolderListing& listing) {
  const nlohmann::json json = {{"version", kListingVersion},
                               {"of", listing.folder},
                               {"is_deep", listing.is_deep},
                               {"names", listing.names}};
  const std::string name = fmt::format("{}{:016x}.json", kPrefix,
                                       XXH3_64bits(listing.folder.data(), listing.folder.size()));
  io::write_small_file(directory.path_of(name),
                       json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::vector<FolderListing> read_listings(const io::Directory& directory) {
  std::vector<FolderListing> listings;
  for (const std::string& name : directory.names()) {
    if (!name.starts_with(kPrefix)) continue;
    try {
      const auto json =
          nlohmann::json::parse(io::read_small_file(directory.path_of(name), kMostOfListing));
      if (json.at("version") != kListingVersion) continue;
      listings.push_back({json.at("of"), json.at("is_deep"), json.at("names")});
    } catch (const nlohmann::json::exception&) {  // NOLINT(bugprone-empty-catch): as if not there
    } catch (const Error&) {                      // NOLINT(bugprone-empty-catch): as if not there
    }
  }
  return listings;
}

void remove_listings(const io::Directory& directory) {
  for (const std::string& name : directory.names())
    if (name.starts_with(kPrefix)) directory.remove(name);
}

}  // namespace cellfeed::cloud
