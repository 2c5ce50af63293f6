// What a folder of a bucket held when `cellfeed cache fetch` copied files of it, noted beside the
// copies: without it nobody knows offline what is missing. Thread-safe.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cellfeed/io/directory.h"

namespace cellfeed::cloud {

struct FolderListing {
  std::string folder;           // its path
  bool is_deep = false;         // files at any depth; else the names in the folder itself
  std::set<std::string> names;  // from the folder
};

void write_listing(const io::Directory& directory, const FolderListing& listing);
// Those that can be read.
std::vector<FolderListing> read_listings(const io::Directory& directory);
void remove_listings(const io::Directory& directory);

}  // namespace cellfeed::cloud
