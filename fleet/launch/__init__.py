"""What starts workers of a fleet on other machines: `spec` says what is wanted, `batch` writes job scripts, `kubernetes` manifests, and
`ssh` goes to hosts and starts them. All of them end in one plain command, `tune fleet worker URL`."""
