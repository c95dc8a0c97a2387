"""`vpm verify`: checks the service's statements with nothing but a node. It uses no database and no service, and does
not trust the document. Addresses come from the deployment file of the node's chain, everything else from logs and views
at one block. `claims` records each finding, `chain` reads the chain; `stock`, `agent`, `relay`, `proof` and
`attestation` check the kinds of document that `subject` recognizes."""
