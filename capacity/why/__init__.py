"""Why there is no plan: what was looked at, what each constraint took away, and what would make the gang fit."""
