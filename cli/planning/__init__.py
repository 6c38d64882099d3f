"""`tune plan`: plans over devices, and pipeline schedules."""
