// Reports on this machine: versions, GPUs, limits, network, and a short all-reduce.

#include "temper/recipe/diagnose.h"

#include "options.h"

int main(int argc, char** argv) {
  CLI::App app("What this machine is, what would go wrong on it, and a one-second all-reduce");
  temper::DiagnoseCommand command;
  command.start.command.assign(argv, argv + argc);
  app.add_option("--nproc", command.start.processes,
                 "processes of the all-reduce; auto: one a visible GPU, 2 without several");
  app.add_option("--launcher", command.start.launcher, "auto, spawn, env, slurm, mpi or none");
  app.add_flag("--json", command.json, "print one JSON object");
  app.set_version_flag("--version", [] { return temper::version_text(); });
  return temper::apps::run_app(app, argc, argv, [&] { return temper::run_diagnose(command); });
}
