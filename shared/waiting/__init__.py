"""Why a pod does not run, as a pure function: what it asks for and what the nodes say → a reason.

The controller posts Events and counts by it, `slicewire why` and `status` answer by it, so all of
them say the same.
"""
