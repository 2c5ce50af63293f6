#include "cellfeed/cloud/schemes.h"

#include "cellfeed/cloud/bucket_file_system.h"
#include "cellfeed/cloud/cache/offline.h"
#include "cellfeed/cloud/http/http_file_system.h"
#include "cellfeed/cloud/http/recent_objects.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/look_anew.h"

namespace cellfeed::cloud {

void register_schemes() {
  static const bool is_done = [] {
    const auto http = with_offline(make_http_file_system());
    for (const char* scheme : {"http", "https"}) io::register_scheme(scheme, http);
    const auto buckets = with_offline(make_bucket_file_system());
    for (const char* scheme : {"s3", "gs", "gcs", "az", "abfs", "abfss"})
      io::register_scheme(scheme, buckets);
    io::on_look_anew([] { recent_objects().forget_below(""); });
    return true;
  }();
  static_cast<void>(is_done);
}

}  // namespace cellfeed::cloud
