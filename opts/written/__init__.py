"""Options and schedules as text: what people write, and what they are shown."""
