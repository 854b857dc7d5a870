"""What can be seen: every string in both languages, and pictures made with matplotlib."""
