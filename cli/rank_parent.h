/* cli/rank_parent.h - the parent process of a rank. */
#ifndef BRASA_CLI_RANK_PARENT_H
#define BRASA_CLI_RANK_PARENT_H

/* Forks if mpirun started this process. The child continues: the function returns CLI_CONTINUE, as
 * it does without mpirun. The parent hands signals on to the child, waits for its end, says which
 * signal has ended it, and returns the exit status. Call it before threads are started. */
int cli_fork_rank(void);

#endif
