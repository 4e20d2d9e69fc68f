"""Why a pod does not run."""
