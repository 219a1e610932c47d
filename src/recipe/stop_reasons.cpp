#include "recipe/stop_reasons.h"

namespace temper {

StopReason stop_reason(StopRequest request) {
  switch (request) {
    case StopRequest::kCheckpoint:
      return StopReason::kCheckpoint;
    case StopRequest::kTerminate:
      return StopReason::kTerminate;
    case StopRequest::kInterrupt:
      return StopReason::kInterrupt;
    case StopRequest::kNone:
      break;
  }
  return StopReason::kFinished;
}

std::string_view request_name(StopRequest request) {
  switch (request) {
    case StopRequest::kCheckpoint:
      return "SIGUSR1";
    case StopRequest::kTerminate:
      return "SIGTERM";
    case StopRequest::kInterrupt:
      return "SIGINT";
    case StopRequest::kNone:
      break;
  }
  return "nobody";
}

int exit_status(StopReason reason) {
  switch (reason) {
    case StopReason::kFinished:
      return 0;
    case StopReason::kCheckpoint:
    case StopReason::kTerminate:
      return 75;
    case StopReason::kInterrupt:
      return 130;
    case StopReason::kTimeUp:
      return 124;
  }
  return 1;
}

}  // namespace temper
