"""What a process does besides: threads, workers, memory, stops, progress, logs, measurements."""
