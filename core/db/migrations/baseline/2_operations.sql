CREATE FUNCTION notify_operator_switch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('operator_switch', COALESCE(NEW.name, OLD.name));
    RETURN NULL;
END
$$;
CREATE TRIGGER operator_switch_changed AFTER INSERT OR DELETE OR UPDATE ON operator_switch
    FOR EACH ROW EXECUTE FUNCTION notify_operator_switch();

CREATE FUNCTION notify_keeper_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('keeper_job', NEW.id::text);
    RETURN NULL;
END
$$;
CREATE TRIGGER keeper_job_asked_for AFTER INSERT ON keeper_job
    FOR EACH ROW EXECUTE FUNCTION notify_keeper_job();
