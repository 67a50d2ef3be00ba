"""The catalog: functions and their profiles, applications as DAGs, the cluster; and its file."""
