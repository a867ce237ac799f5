"""What happens when something goes wrong: kills, damaged and hostile files, malformed calls, threads, derivatives."""
