#include "cellfeed/cloud/schemes.h"

#include <memory>
#include <string>
#include <vector>

#include "cellfeed/cloud/bucket_file_system.h"
#include "cellfeed/cloud/http/http_file_system.h"
#include "cellfeed/cloud/http/recent_objects.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/look_anew.h"

namespace cellfeed::cloud {

void register_schemes() {
  // For good: files may be closed while the process ends.
  static const auto* const kept = [] {
    auto* all = new std::vector<std::unique_ptr<io::FileSystemRegistration>>();
    const auto add = [&](const char* scheme, const auto& files) {
      all->push_back(std::make_unique<io::FileSystemRegistration>(scheme, files));
    };
    const auto http = make_http_file_system();
    for (const char* scheme : {"http", "https"}) add(scheme, http);
    const auto buckets = make_bucket_file_system();
    for (const char* scheme : {"s3", "gs", "gcs", "az", "abfs", "abfss"}) add(scheme, buckets);
    io::on_look_anew([] { recent_objects().forget_below(""); });
    return all;
  }();
  static_cast<void>(kept);
}

}  // namespace cellfeed::cloud
